package graph

import (
	"context"
	"strings"
	"testing"
	"time"
)

// one and two are operators of one and of two inputs that do nothing.
type one struct{}

func (one) Open(context.Context, OperatorContext) error             { return nil }
func (one) Process(context.Context, *Record, Collector) error       { return nil }
func (one) OnTimer(context.Context, int64, []byte, Collector) error { return nil }

type two struct{ one }

func (two) ProcessSecond(context.Context, *Record, Collector) error { return nil }

var _ TwoInput = two{}

// empty is a source without records.
type empty struct{}

func (empty) Partitions() int                        { return 1 }
func (empty) Limit(int, int64) int64                 { return 0 }
func (empty) Read(int, int64, *Record) (bool, error) { return false, nil }
func (empty) Due(int, int64) time.Duration           { return 0 }
func (empty) Watermark(int, int64) int64             { return 0 }

// diamond is source -> left and right -> join -> sink.
func diamond() *Job {
	single := func() Operator { return one{} }
	return &Job{
		Nodes: []Node{{ID: "source", Source: empty{}}, {ID: "left", Operator: single}, {ID: "right", Operator: single},
			{ID: "join", Keyed: true, Operator: func() Operator { return two{} }}, {ID: "sink", Sink: true}},
		Edges: []Edge{{From: "source", To: "left", Exchange: Forward}, {From: "source", To: "right", Exchange: Forward},
			{From: "left", To: "join", Exchange: Hash}, {From: "right", To: "join", Exchange: Broadcast, Input: Second},
			{From: "join", To: "sink", Exchange: Forward}},
	}
}

func TestValidateTellsWhatIsWrongWithEdges(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(j *Job)
		want string // empty: nothing is wrong
	}{
		"as it is":                     {func(*Job) {}, ""},
		"hash into the second input":   {func(j *Job) { j.Edges[3].Exchange = Hash }, ""},
		"the same edge to both inputs": {func(j *Job) { j.Edges = append(j.Edges, Edge{"left", "join", Hash, Second}) }, ""},
		"an edge twice":                {func(j *Job) { j.Edges = append(j.Edges, j.Edges[2]) }, "is there twice"},
		"backwards":                    {func(j *Job) { j.Edges[2].From = "sink" }, "does not lead from a node to a later one"},
		"forward into a keyed node":    {func(j *Job) { j.Edges[2].Exchange = Forward }, "not hash"},
		"broadcast to the first input": {func(j *Job) { j.Edges[2].Exchange = Broadcast }, "not hash"},
		"no exchange":                  {func(j *Job) { j.Edges[4].Exchange = 0 }, "no exchange"},
		"a third input":                {func(j *Job) { j.Edges[3].Input = 2 }, "no input that there is"},
		"nothing on the second input":  {func(j *Job) { j.Edges[3].Input = First; j.Edges[3].Exchange = Hash }, "to its second: false; needed: true, true"},
		"a second input of one":        {func(j *Job) { j.Edges[0].Input = Second }, "needed: true, false"},
		"a second input of the sink":   {func(j *Job) { j.Edges[4].Input = Second }, "needed: true, false"},
		"no way in":                    {func(j *Job) { j.Edges = j.Edges[1:] }, `node "left"`},
	} {
		t.Run(name, func(t *testing.T) {
			j := diamond()
			c.edit(j)
			switch err := j.Validate(); {
			case err == nil && c.want != "":
				t.Errorf("nothing is wrong, want %q", c.want)
			case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
