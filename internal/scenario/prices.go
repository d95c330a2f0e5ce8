package scenario

import (
	"fmt"
	"strconv"

	"statebench.dev/bench/internal/plan"
)

// prices reads env.store.prices: a file, or the figures themselves.
func (l *loader) prices(o object, s *Scenario) {
	f, ok := o.find("prices")
	if !ok {
		return
	}
	l.origin(f.path, f.where)
	if isMapping(f.value) {
		if p, ok := l.object(f.value, f.path, "prices", "prices"); ok {
			s.Store.Prices = l.billed(p)
		}
		return
	}
	fail := func(format string, args ...any) { l.fail(f.where, format, args...) }
	path, err := text(l, f)
	if err != nil {
		fail("prices must be a file or a mapping, is %s", kindOf(f.value))
		return
	}
	in, err := l.input(s, path)
	if err != nil {
		fail("prices %s", err)
		return
	}
	l.pricesFile(s, in.File, fail)
}

// pricesFlag applies --prices. A file that the command line names may lie anywhere.
func (l *loader) pricesFlag(s *Scenario) {
	if l.over.Prices == "" {
		return
	}
	l.origins["env.store.prices"] = "flag --prices"
	l.pricesFile(s, l.over.Prices, func(format string, args ...any) { l.flag("--prices", format, args...) })
}

// pricesFile reads prices from a file.
func (l *loader) pricesFile(s *Scenario, path string, fail func(format string, args ...any)) {
	src, err := readRegular(path)
	if err != nil {
		fail("prices cannot be read: %v", err)
		return
	}
	p, problems := ReadPrices(path, src)
	l.problems = append(l.problems, problems...)
	if len(problems) == 0 {
		s.Store.Prices = &p
	}
}

// readRegular reads a file that is neither too large nor something else than a file.
func readRegular(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	return readAll(f, path)
}

// LoadPrices reads the file at path as ReadPrices does. The error says all that is wrong with it.
func LoadPrices(path string) (plan.Prices, error) {
	src, err := readRegular(path)
	if err != nil {
		return plan.Prices{}, fmt.Errorf("prices cannot be read: %w", err)
	}
	p, problems := ReadPrices(path, src)
	if len(problems) > 0 {
		return plan.Prices{}, problems[0]
	}
	return p, nil
}

// ReadPrices reads a price list, in YAML or JSON, as strictly as Load reads scenarios. path names it in problems.
func ReadPrices(path string, src []byte) (plan.Prices, []Problem) {
	l := newLoader(path, src, Tables{}, Overrides{})
	doc := l.parse(src)
	if doc == nil {
		return plan.Prices{}, sortProblems(l.problems)
	}
	root, ok := l.object(doc, "", "prices.file", "")
	if !ok {
		return plan.Prices{}, sortProblems(l.problems)
	}
	var version, kind string
	read(root, "apiVersion", &version, word)
	read(root, "kind", &kind, word)
	p := l.billed(root)
	return *p, sortProblems(l.problems)
}

// billed reads what a price list says, from a file or from a scenario.
func (l *loader) billed(o object) *plan.Prices {
	var p plan.Prices
	before := len(l.problems)
	read(o, "name", &p.Name, name)
	read(o, "about", &p.About, text)
	for _, f := range priceKeys(&p) {
		read(o, f.key, f.into, numberFrom(0, plan.MaxPrice))
	}
	if len(l.problems) > before {
		return &p
	}
	for _, err := range p.Validate() {
		l.optionProblems(err, o.path, o.at)
	}
	return &p
}

// priceKey is one figure of a price list.
type priceKey struct {
	key  string
	into *float64
}

func priceKeys(p *plan.Prices) []priceKey {
	return []priceKey{{"write", &p.Write}, {"read", &p.Read}, {"delete", &p.Delete}, {"stored", &p.Stored}, {"sent", &p.Sent}, {"received", &p.Received}}
}

// priceLines are the settings of a price list, one a line.
func priceLines(p plan.Prices) []string {
	out := []string{"name: " + quoted(p.Name)}
	if p.About != "" {
		out = append(out, "about: "+strconv.Quote(p.About))
	}
	for _, f := range priceKeys(&p) {
		out = append(out, f.key+": "+strconv.FormatFloat(*f.into, 'f', -1, 64))
	}
	return out
}
