package plinth_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// changesPage has a list of files for each everyday change.
const changesPage = "docs/explanation/changes.md"

// instance is one language, reason or code: the words by which files name it.
type instance []string

// followed are the changes whose lists are held against every instance of what they add.
var followed = []struct {
	heading, placeholder string
	of                   func(*testing.T) []instance
}{
	{"A router language", "<language>", languages},
	{"A refusal reason", "<reason>", refusalReasons},
	{"A problem code", "<code>", problemCodes},
}

func languages(*testing.T) (out []instance) {
	for _, language := range inventory.Languages() {
		out = append(out, instance{language})
	}
	return out
}

// refusalReasons are the constants of the group of lb/reasons.go that says why a Service gets no VIP.
func refusalReasons(t *testing.T) (out []instance) {
	_, group, found := strings.Cut(read(t, "lb/reasons.go"), "// Why a Service gets no VIP")
	group, _, ends := strings.Cut(group, "\n)\n")
	if !found || !ends {
		t.Fatal("lb/reasons.go has no group of reasons why a Service gets no VIP")
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+) +Reason = "`).FindAllStringSubmatch(group, -1) {
		out = append(out, instance{m[1]})
	}
	return out
}

func problemCodes(*testing.T) (out []instance) {
	for _, doc := range document.CodeDocs() {
		out = append(out, instance{string(doc.Code), doc.Name})
	}
	return out
}

// changeStep is one step of a list.
type changeStep struct {
	paths       []string // patterns; <language> and the like stand for the instance
	every       bool     // each path has to name each instance; else one of them
	conditional bool     // only some instances need it
	besides     string   // a file that does not count, since each instance stands there in any case; empty: all count
}

var (
	stepLine    = regexp.MustCompile(`(?m)^\d+\. (.*)$`)
	pathsInStep = regexp.MustCompile("^((?:`[^`]+`(?:, | or | and )?)+?)(?:, besides `([^`]+)`)?:")
	pathQuoted  = regexp.MustCompile("`([^` ]+/[^` ]+)`")
)

// stepsOf reads the list under a heading of the page. A step that begins with "Where" is one that some instances need.
func stepsOf(t *testing.T, heading string) (steps []changeStep) {
	t.Helper()
	_, section, found := strings.Cut(read(t, changesPage), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", changesPage, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, line := range stepLine.FindAllStringSubmatch(section, -1) {
		step := changeStep{conditional: strings.HasPrefix(line[1], "Where ")}
		files := line[1]
		if !step.conditional {
			m := pathsInStep.FindStringSubmatch(files)
			if m == nil {
				t.Fatalf("%s, %s: a step begins with files and a colon, or with Where: %s", changesPage, heading, line[1])
			}
			files, step.besides = m[1], m[2]
			step.every = !strings.Contains(files, " or ")
		}
		for _, m := range pathQuoted.FindAllStringSubmatch(files, -1) {
			step.paths = append(step.paths, m[1])
		}
		steps = append(steps, step)
	}
	return steps
}

// TestTheFilesOfAChangeNameEveryInstance holds each list against what there is already: every instance stands in the files of
// each step, and where most instances stand, a step says so.
func TestTheFilesOfAChangeNameEveryInstance(t *testing.T) {
	files := writtenFiles(t)
	for _, change := range followed {
		instances, steps := change.of(t), stepsOf(t, change.heading)
		if len(instances) < 10 || len(steps) < 4 {
			t.Errorf("%s: only %d instances and %d steps were found", change.heading, len(instances), len(steps))
		}
		placesOf := map[string]int{} // how many instances have a file there
		listed := map[string]bool{}  // places of which a step names a file
		for _, one := range instances {
			naming := files.naming(one)
			for _, step := range steps {
				for _, missing := range step.missing(one, change.placeholder, naming, files, listed) {
					t.Errorf("%s: %s is not in %s", change.heading, one[0], missing)
				}
			}
			for _, place := range places(naming) {
				placesOf[place]++
			}
		}
		for place, n := range placesOf {
			if 5*n >= 4*len(instances) && !listed[place] {
				t.Errorf("%s: %d of %d stand in %s, and no step of %s says so", change.heading, n, len(instances), place, changesPage)
			}
		}
	}
}

// missing are the paths of a step that do not name an instance. It notes the places that the step is of, where every instance needs it.
func (s changeStep) missing(one instance, placeholder string, naming []string, files texts, listed map[string]bool) (out []string) {
	for _, pattern := range s.paths {
		own := strings.ReplaceAll(pattern, placeholder, one[0])
		candidates := naming
		if own != pattern { // its name is the instance's
			candidates = files.names
		}
		found := slices.DeleteFunc(matching(own, candidates), func(file string) bool { return file == s.besides })
		for _, place := range places(found) {
			listed[place] = listed[place] || !s.conditional
		}
		if len(found) == 0 {
			out = append(out, own)
		}
	}
	if s.conditional || !s.every && len(out) < len(s.paths) {
		return nil
	}
	return out
}

// matching are the files that a pattern matches; one of Go sources does not mean tests.
func matching(pattern string, files []string) (out []string) {
	for _, file := range files {
		is, err := path.Match(pattern, file)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", pattern, err))
		}
		if is && strings.HasSuffix(pattern, "_test.go") == strings.HasSuffix(file, "_test.go") {
			out = append(out, file)
		}
	}
	return out
}

// places are the folders of files, each with the kind of file: of a folder most files are alike.
func places(files []string) (out []string) {
	for _, file := range files {
		kind := filepath.Ext(file)
		for _, longer := range []string{"_test.go", ".bad.yaml"} {
			if strings.HasSuffix(file, longer) {
				kind = longer
			}
		}
		out = append(out, path.Dir(file)+"/*"+kind)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// texts are files with what stands in them.
type texts struct {
	names []string // sorted
	words map[string]map[string]bool
}

var word = regexp.MustCompile(`\w+`)

// writtenFiles are the sources, tests, pages and documents of the repository, and what is made of them. The page of changes
// itself, and the changelog, name what they name as examples.
func writtenFiles(t *testing.T) texts {
	t.Helper()
	all := texts{words: map[string]map[string]bool{}}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "dist"):
			return fs.SkipDir
		case d.IsDir() || file == changesPage || file == "CHANGELOG.md":
			return nil
		}
		all.names = append(all.names, file)
		if !slices.Contains([]string{".go", ".md", ".yaml", ".json"}, filepath.Ext(file)) {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		has := map[string]bool{}
		for _, w := range word.FindAll(text, -1) {
			has[string(w)] = true
		}
		all.words[file] = has
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// naming are the files in which an instance stands, sorted.
func (f texts) naming(one instance) (out []string) {
	for _, name := range f.names {
		if slices.ContainsFunc(one, func(w string) bool { return f.words[name][w] }) {
			out = append(out, name)
		}
	}
	return out
}
