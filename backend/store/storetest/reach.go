package storetest

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// testReach calls every method that the interface has, found by reflection, through WithFaults with a rule that refuses
// all: a method that a decorator forgot would get through.
func testReach(t *testing.T, b store.Bucket, _ Options) {
	w := world.NewReal(1)
	inj := store.NewInjector(w)
	remove := inj.Add(store.Rule{Name: "all", Status: 403})
	f := reflect.ValueOf(store.WithFaults(b, inj, w))
	iface := reflect.TypeFor[store.Bucket]()
	called := int64(0)
	for i := range iface.NumMethod() {
		m := iface.Method(i)
		if m.Name == "Close" { // no request
			continue
		}
		out := f.MethodByName(m.Name).Call(arguments(t, m))
		called++
		if err := errorOf(t, m.Name, out); !errors.Is(err, store.ErrDenied) || !errors.Is(err, store.ErrInjected) {
			t.Errorf("%s does not reach the injector: got error %v", m.Name, err)
		}
		if got := inj.Hits("all"); got != called {
			t.Errorf("%d hits after %s, want %d", got, m.Name, called)
		}
	}
	remove()
	if err := store.WithFaults(b, inj, w).Put(t.Context(), "k", nil, store.PutOptions{}); err != nil {
		t.Errorf("Put after the rule was removed: %v", err)
	}
}

// arguments makes one argument of each type that methods of Bucket take.
func arguments(t *testing.T, m reflect.Method) []reflect.Value {
	var in []reflect.Value
	for j := range m.Type.NumIn() {
		switch typ := m.Type.In(j); typ {
		case reflect.TypeFor[context.Context]():
			in = append(in, reflect.ValueOf(t.Context()))
		case reflect.TypeFor[string]():
			in = append(in, reflect.ValueOf("k"))
		case reflect.TypeFor[[]string]():
			in = append(in, reflect.ValueOf([]string{"k"}))
		case reflect.TypeFor[int64]():
			in = append(in, reflect.ValueOf(int64(1)))
		default:
			in = append(in, reflect.Zero(typ))
		}
	}
	return in
}

// errorOf finds the error in what a method returned.
func errorOf(t *testing.T, name string, out []reflect.Value) error {
	switch last := out[len(out)-1].Interface().(type) {
	case nil:
		return nil
	case error:
		return last
	case []store.Deleted:
		return last[0].Err
	case iter.Seq2[store.Attributes, error]:
		for _, err := range last {
			return err
		}
		return nil
	default:
		t.Fatalf("%s returns %T: say here where its error is", name, last)
		return nil
	}
}
