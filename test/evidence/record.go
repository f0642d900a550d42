package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"
)

// record is what a part measured, and of what.
type record struct {
	origin
	figures map[string]map[string][]float64 // by benchmark, then by unit; several where it ran several times
}

// origin is what a record says of itself, a line for each field.
type origin struct {
	Commit     string // abbreviated
	Date       string // 2026-11-28
	Processors string
	Kernel     string
	Load       string // the mean of a minute, before it began
}

// fields lists the lines in their order.
func (o *origin) fields() []struct {
	key   string
	value *string
} {
	return []struct {
		key   string
		value *string
	}{{"commit", &o.Commit}, {"date", &o.Date}, {"processors", &o.Processors}, {"kernel", &o.Kernel}, {"load", &o.Load}}
}

// here describes this machine now, and the commit.
func here(commit string) (origin, error) {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return origin{}, err
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return origin{}, err
	}
	mean, _, _ := strings.Cut(string(load), " ")
	return origin{Commit: commit, Date: time.Now().Format(time.DateOnly), Processors: strconv.Itoa(runtime.NumCPU()), Kernel: strings.TrimSpace(string(kernel)), Load: mean}, nil
}

// String is the sentence above a table.
func (o *origin) String() string {
	return fmt.Sprintf("Measured on `%s`, %s: %s processors, load %s before.", o.Commit, o.Date, o.Processors, o.Load)
}

// benchmarkLine is a line of a record, besides those of [origin]; what else go test prints is none of it.
var benchmarkLine = regexp.MustCompile(`^(pkg|cpu|goos|goarch): |^Benchmark\S+\s+\d+\s`)

// write writes what benchmarks printed into a file.
func write(file string, of origin, printed []byte) error {
	var text bytes.Buffer
	for _, f := range of.fields() {
		fmt.Fprintf(&text, "%s: %s\n", f.key, *f.value)
	}
	for line := range bytes.Lines(printed) {
		if benchmarkLine.Match(line) {
			text.Write(line)
		}
	}
	if _, err := parse(file, text.Bytes()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// read reads a record. There is none where the part was never measured.
func read(file string) (r record, there bool, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, err
	}
	r, err = parse(file, text)
	return r, err == nil, err
}

func parse(file string, text []byte) (record, error) {
	r := record{figures: map[string]map[string][]float64{}}
	reader := benchfmt.NewReader(bytes.NewReader(text), filepath.Base(file))
	for reader.Scan() {
		switch line := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return record{}, line
		case *benchfmt.Result:
			for _, f := range r.fields() {
				*f.value = line.GetConfig(f.key)
			}
			name := withoutProcessors(line.Name)
			if r.figures[name] == nil {
				r.figures[name] = map[string][]float64{}
			}
			for _, v := range line.Values {
				unit, value := asPrinted(v)
				r.figures[name][unit] = append(r.figures[name][unit], value)
			}
		}
	}
	if err := reader.Err(); err != nil {
		return record{}, err
	}
	if len(r.figures) == 0 {
		return record{}, fmt.Errorf("%s: no benchmark printed a figure", file)
	}
	for _, f := range r.fields() {
		if *f.value == "" {
			return record{}, fmt.Errorf("%s: has no line %q above its figures", file, f.key+": ")
		}
	}
	return r, nil
}

// asPrinted is a figure in the unit that the benchmark printed: [benchfmt] makes bytes of MB, and seconds of ns.
func asPrinted(v benchfmt.Value) (unit string, value float64) {
	if v.OrigUnit != "" {
		return v.OrigUnit, v.OrigValue
	}
	return v.Unit, v.Value
}

// withoutProcessors is the name of a benchmark without the number of processors that Go adds where it is not 1.
func withoutProcessors(n benchfmt.Name) string {
	base, parts := n.Parts()
	name := string(base)
	for _, part := range parts {
		if part[0] != '-' {
			name += string(part)
		}
	}
	return name
}

// of returns the figures of a benchmark in a unit, the least first.
func (r record) of(benchmark, unit string) ([]float64, error) {
	all := slices.Sorted(slices.Values(r.figures[benchmark][unit]))
	if len(all) == 0 {
		return nil, fmt.Errorf("the record has no %s of %s", unit, benchmark)
	}
	return all, nil
}

// Has reports whether the record has a figure of a benchmark in a unit.
func (r record) Has(benchmark, unit string) bool { return len(r.figures[benchmark][unit]) > 0 }

// Median is the median of a benchmark's figures in a unit, as text.
func (r record) Median(benchmark, unit string) (string, error) { return r.scaled(benchmark, unit, 1) }

// OrBelow is the median of a benchmark's figures in a unit, or "below" their bound, where they were too small to be told: the benchmark
// reports that in the same unit after "below-".
func (r record) OrBelow(benchmark, unit string) (string, error) {
	if r.Has(benchmark, unit) {
		return r.Median(benchmark, unit)
	}
	bound, err := r.Median(benchmark, "below-"+unit)
	return "below " + bound, err
}

// Micros is the median time of one operation of a benchmark in microseconds.
func (r record) Micros(benchmark string) (string, error) { return r.scaled(benchmark, "ns/op", 1e-3) }

// Millis is the median time of one operation of a benchmark in milliseconds.
func (r record) Millis(benchmark string) (string, error) { return r.scaled(benchmark, "ns/op", 1e-6) }

// Megabytes is the median of what one operation of a benchmark allocates, in MB.
func (r record) Megabytes(benchmark string) (string, error) { return r.scaled(benchmark, "B/op", 1e-6) }

// Span is the least and the most of a benchmark's figures in a unit, as text: "3 to 3.9".
func (r record) Span(benchmark, unit string) (string, error) {
	all, err := r.of(benchmark, unit)
	if err != nil {
		return "", err
	}
	return span(all), nil
}

// Among is the least and the most, in a unit, of the medians of all benchmarks whose names begin with a prefix.
func (r record) Among(prefix, unit string) (string, error) { return r.scaledAmong(prefix, unit, 1) }

// MicrosAmong is [record.Among] of the times of one operation, in microseconds.
func (r record) MicrosAmong(prefix string) (string, error) {
	return r.scaledAmong(prefix, "ns/op", 1e-3)
}

func (r record) scaled(benchmark, unit string, times float64) (string, error) {
	all, err := r.of(benchmark, unit)
	if err != nil {
		return "", err
	}
	return text(times * all[len(all)/2]), nil
}

func (r record) scaledAmong(prefix, unit string, times float64) (string, error) {
	var medians []float64
	for _, benchmark := range slices.Sorted(maps.Keys(r.figures)) {
		if !strings.HasPrefix(benchmark, prefix) {
			continue
		}
		all, err := r.of(benchmark, unit)
		if err != nil {
			return "", err
		}
		medians = append(medians, times*all[len(all)/2])
	}
	if len(medians) == 0 {
		return "", fmt.Errorf("the record has no benchmark whose name begins with %s", prefix)
	}
	return span(medians), nil
}

// span is the least and the most of figures as text, or one where they read alike.
func span(figures []float64) string {
	least, most := text(slices.Min(figures)), text(slices.Max(figures))
	if least == most {
		return least
	}
	return least + " to " + most
}

// text is a figure in hundredths below 1, in tenths below 10, whole from there on, and with a comma at each thousand.
func text(figure float64) string {
	if math.Abs(figure) < 10 {
		decimals := 1.0
		if math.Abs(figure) < 1 {
			decimals = 2
		}
		scale := math.Pow(10, decimals)
		if figure = math.Round(figure*scale) / scale; figure == 0 {
			return "0" // not -0
		}
		return strconv.FormatFloat(figure, 'f', -1, 64)
	}
	digits := strconv.FormatFloat(math.Round(figure), 'f', 0, 64)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
