package report

import (
	"bytes"
	"flag"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var forestOut = flag.String("forest", "", "leave the pictures of the forest in this folder")

func TestForestShowsEachMetricOnItsSide(t *testing.T) {
	f := Forest{
		Title: "value: changelog-on against changelog-off", Caption: "real · store embedded · profile s3-standard · 12 pairs, 98 % intervals", Simulated: true,
		Rows: []ForestRow{
			{Group: "primary", Label: "steady/recoveryPointAge.p99w", Text: "−21 % (−25 to −17 %), p 0.0005", Verdict: "improvement", Ratio: 0.79, Low: 0.75, High: 0.83, Floor: 0.05, Dots: []float64{0.78, 0.8, 0.81, 0.77}},
			{Group: "primary", Label: "crash/recovery.restore", Text: "+75 % (+40 to +120 %)", Verdict: "regression", Ratio: 1.75, Low: 1.4, High: 2.2, Floor: 0.05},
			{Group: "phase steady", Label: "throughput", Text: "0 %", Verdict: "equivalent", Ratio: 1, Low: 0.99, High: 1.01, Floor: 0.05},
			{Group: "phase steady", Label: "latency.p99", Text: "too much noise to tell; 9 pairs more should tell", Verdict: "inconclusive", Ratio: 1.1, Low: 0.7, High: 1.8, Floor: 0.05},
		},
	}
	svg, picture, err := f.Draw()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"recoveryPointAge.p99w", "phase steady", "9 pairs more", "simulated", "too small to matter", "12 pairs"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
	if _, err := png.Decode(bytes.NewReader(picture)); err != nil {
		t.Error(err)
	}
	if *forestOut != "" {
		if err := os.WriteFile(filepath.Join(*forestOut, "forest.png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestForestOfOddNumbersIsDrawn(t *testing.T) {
	for _, r := range []ForestRow{{}, {Label: strings.Repeat("x", 500), Ratio: 1e300, Low: -1, High: math.Inf(1), Dots: []float64{math.NaN(), 0}}} {
		svg, _, err := Forest{Title: "odd", Rows: []ForestRow{r}}.Draw()
		if err != nil || strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
			t.Errorf("%+v: %v", r, err)
		}
	}
	svg, _, err := Forest{Title: "empty"}.Draw()
	if err != nil || !strings.Contains(string(svg), "Nothing to show") {
		t.Errorf("%v", err)
	}
}
