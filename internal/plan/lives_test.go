package plan

import (
	"strings"
	"testing"
	"time"
)

func TestLives(t *testing.T) {
	stop := func(form string) Step { return Step{Stop: &Stop{Savepoint: form}} }
	start := func(from, backend string) Step {
		s := &Start{From: from}
		if backend != "" {
			s.Arm, s.Backend = "other", &Backend{Name: backend}
		}
		return Step{Start: s}
	}
	as := func(schema int) Step { return Step{Start: &Start{From: FromCheckpoint, Schema: schema}} }
	for _, c := range []struct {
		steps []Step
		want  string // in the error; empty: none
		lives string // the backends, one after the other
	}{
		{[]Step{{Savepoint: Native}}, "", "heap"},
		{[]Step{stop(Native), start(FromSavepoint, "")}, "", "heap heap"},
		{[]Step{stop(Canonical), start(FromSavepoint, "lsm"), stop(""), start(FromCheckpoint, "")}, "", "heap lsm lsm"},
		{[]Step{stop(""), start(FromCheckpoint, "heap")}, "", "heap heap"},
		{[]Step{stop(Native), start(FromSavepoint, "lsm")}, "opens state of backend heap with lsm", ""},
		{[]Step{stop(""), start(FromCheckpoint, "lsm")}, "opens state of backend heap with lsm", ""},
		{[]Step{stop(Canonical), start(FromSavepoint, "lsm"), stop(Native), start(FromSavepoint, "heap")}, "opens state of backend lsm with heap", ""},
		{[]Step{{Savepoint: Canonical}, stop(""), start(FromSavepoint, "")}, "was not stopped with", ""},
		{[]Step{stop(Canonical), start(FromCheckpoint, "")}, "retains none", ""},
		{[]Step{stop(""), start(FromSavepoint, "")}, "none was taken", ""},
		{[]Step{stop(""), as(2), stop(""), start(FromCheckpoint, ""), stop(""), as(2)}, "", "heap heap heap heap"},
		{[]Step{stop(""), as(2), stop(""), as(1)}, "schema 1 is older than 2", ""},
		{[]Step{stop(""), as(-1)}, "schema must be 1 to 32768, is -1", ""},
		{[]Step{stop("")}, "leaves the job stopped", ""},
		{[]Step{start(FromSavepoint, "")}, "starts a job that runs", ""},
	} {
		p := good()
		p.Phases = append(p.Phases[:2:2], Phase{Name: "life", Steps: c.steps, Within: Duration(time.Minute)}, p.Phases[2])
		err := p.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one about %q", c.steps, err, c.want)
		}
		var names []string
		for _, b := range p.Lives() {
			names = append(names, b.Name)
		}
		if got := strings.Join(names, " "); c.lives != "" && got != c.lives {
			t.Errorf("lives %s, want %s", got, c.lives)
		}
		if n := len(p.Schemas()); n != len(names) || p.Schemas()[0] != 1 {
			t.Errorf("%d schemas of %d lives: %v", n, len(names), p.Schemas())
		}
	}
}
