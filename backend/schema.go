package backend

import (
	"errors"
	"fmt"
)

// ErrSchema is wrapped by the error of a state that is stored in a form which the program cannot read. No attempt of the same
// program could.
var ErrSchema = errors.New("state of another schema")

// Schema is the form that the values of a state are stored in. Snapshots, logs and savepoints carry it beside the state's name.
type Schema struct {
	Serializer string // kind of the form; empty: nobody said
	Version    uint32 // of that kind, from 1 on; 0 is 1: what was written before there were versions
}

// version is that of what is stored.
func (s Schema) version() uint32 { return max(1, s.Version) }

// String is the schema as errors write it.
func (s Schema) String() string {
	if s.Serializer == "" {
		return fmt.Sprintf("version %d", s.version())
	}
	return fmt.Sprintf("%s version %d", s.Serializer, s.version())
}

// SchemaError says that a state is stored in one schema and asked for in another, to which nothing leads.
type SchemaError struct {
	State            string
	Stored, Declared Schema
	Remedy           string // what to do
}

// Error names the state, both schemas and the remedy.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("state %q is stored as %v and opened as %v: %s", e.State, e.Stored, e.Declared, e.Remedy)
}

// Unwrap makes it an ErrSchema.
func (e *SchemaError) Unwrap() error { return ErrSchema }

// Clash is the error for a state that is s and is asked for as o, another type or access; nil if there is none. It does not
// look at schemas.
func (s StateSpec) Clash(o StateSpec) error {
	if s.Type == o.Type && s.Access == o.Access {
		return nil
	}
	return fmt.Errorf("state %q is of type %s with access %d, not %s with %d", s.Name, s.Type, s.Access, o.Type, o.Access)
}

// Together is the state of which one stored part says s and another one o. They must be of one type and schema; a part that does
// not say which serializer it is of goes with any.
func (s StateSpec) Together(o StateSpec) (StateSpec, error) {
	if err := s.Clash(o); err != nil {
		return s, err
	}
	a, b := s.Schema, o.Schema
	if a.version() != b.version() || a.Serializer != b.Serializer && a.Serializer != "" && b.Serializer != "" {
		return s, &SchemaError{State: s.Name, Stored: a, Declared: b,
			Remedy: "two parts of one checkpoint differ; an operator must make its states when it is opened"}
	}
	if a.Serializer == "" && b != (Schema{}) {
		s.Schema = b
	}
	return s, nil
}

// Migrator is the ability of a Keyed to take a state to another schema. All backends of this module have it; a backend around
// another one needs it of the inner one.
type Migrator interface {
	// Migrate makes schema the one that state id is stored in, once rewrite, unless it is nil, has changed the elements of the Keyed
	// that it is given, which has the same states by the same ids. What rewrite does is no change that a log would repeat. After
	// an error the Keyed must be closed. It must come before the first Snapshot where rewrite is not nil.
	Migrate(id StateID, schema Schema, rewrite func(to Keyed) error) error
}

// Migration converts what one version of a schema stored to a later version: a pure function of the bytes, which may be called more
// than once for an element, in any order of elements. What it is given is borrowed and must not be changed; it appends to dst.
// An error fails the restore.
type Migration struct {
	From, To uint32
	// Value converts a value, an element of a list, the value of a map entry, an accumulator: what the state's codec
	// encodes, without the expiry that a time to live puts in front. Nil: it stays as it is.
	Value func(dst, old []byte) ([]byte, error)
	// MapKey converts the key of a map entry. No two may become one. Nil: it stays as it is.
	MapKey func(dst, old []byte) ([]byte, error)
}

// Convert makes a function for a Migration out of two codecs and a function between their types.
func Convert[A, B any](from Codec[A], to Codec[B], f func(A) B) func(dst, old []byte) ([]byte, error) {
	return func(dst, old []byte) ([]byte, error) {
		v, err := from.Decode(old)
		if err != nil {
			return dst, err
		}
		return to.Append(dst, f(v)), nil
	}
}

// WithSchema says which serializer and version the program stores a state by, and how what earlier versions stored is
// converted: each step leads from one version to a later one, at most one from each, and steps are taken one after the other. What
// was stored before the state had a schema counts as version 1. A restored state that no steps lead to the version, that is
// of a later version, or of another serializer, is refused with a SchemaError before anything is changed.
func WithSchema(serializer string, version uint32, steps ...Migration) StateOption {
	return func(o *stateOptions) {
		o.schema, o.steps = Schema{Serializer: serializer, Version: version}, steps
	}
}

// check reports what is wrong with the schema that a program declares.
func (o *stateOptions) check(t Type) error {
	if o.schema != (Schema{}) && (o.schema.Serializer == "" || o.schema.Version == 0) {
		return fmt.Errorf("schema %+v needs a serializer and a version from 1 on", o.schema)
	}
	from := map[uint32]bool{}
	for _, m := range o.steps {
		switch {
		case m.From == 0 || m.From >= m.To || m.To > o.schema.Version:
			return fmt.Errorf("migration from version %d to %d does not lead towards version %d", m.From, m.To, o.schema.Version)
		case from[m.From]:
			return fmt.Errorf("two migrations from version %d", m.From)
		case m.MapKey != nil && t != Map:
			return fmt.Errorf("migration from version %d converts map keys of a state of type %s", m.From, t)
		}
		from[m.From] = true
	}
	return nil
}

// path is the steps that lead from what is stored to what is declared; none if they are one.
func (o *stateOptions) path(name string, stored Schema) (steps []Migration, err error) {
	refuse := func(remedy string) error {
		return &SchemaError{State: name, Stored: stored, Declared: o.schema, Remedy: remedy}
	}
	switch {
	case stored.Serializer != "" && o.schema.Serializer != "" && stored.Serializer != o.schema.Serializer:
		return nil, refuse("that is another kind of serializer; give the state another name, or start without it")
	case stored.version() > o.schema.version():
		return nil, refuse("that is newer than the program knows; run the program that wrote it, or a later one")
	}
	for at := stored.version(); at != o.schema.version(); {
		next := 0
		for ; next < len(o.steps) && o.steps[next].From != at; next++ {
		}
		if next == len(o.steps) {
			return nil, refuse(fmt.Sprintf("no migration leads on from version %d; declare one, or run the program that wrote it", at))
		}
		steps = append(steps, o.steps[next])
		at = o.steps[next].To
	}
	return steps, nil
}
