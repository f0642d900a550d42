package doctor

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Finding is one thing that stands in the way.
type Finding struct {
	Kind    Kind   `json:"kind"`   // as plinth explain knows it
	Object  string `json:"object"` // such as node w1
	Message string `json:"message"`
	Mend    []Mend `json:"mend"` // one at least, in their order
}

// Kind is the name of a check's finding. It has a row in docs/reference/doctor.md.
type Kind string

// Mend is a step that mends a finding: commands, or where there is none a sentence.
type Mend struct {
	On  string `json:"on,omitempty"`  // the Node, or Nodes, to run it on, as root; empty: where kubectl is
	Run string `json:"run,omitempty"` // a command for sh
	Say string `json:"say,omitempty"` // what to do by hand
}

// Printable is the finding with all that moves a terminal's cursor, such as the end of a line, replaced: names come from whoever wrote the
// objects, began the programs or has the inventory, and what follows an end of line would be read as a command.
func (f Finding) Printable() Finding {
	f.Object, f.Message = Printable(f.Object), Printable(f.Message)
	f.Mend = slices.Clone(f.Mend)
	for i, m := range f.Mend {
		f.Mend[i] = Mend{On: Printable(m.On), Run: Printable(m.Run), Say: Printable(m.Say)}
	}
	return f
}

// Printable is a text of one line, with all else than what is to be seen replaced.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// String prints the step as an operator would note it down.
func (m Mend) String() string {
	switch {
	case m.Run == "":
		return m.Say
	case m.On != "":
		return "on " + m.On + ": " + m.Run
	}
	return m.Run
}

func run(words ...string) Mend { return Mend{Run: strings.Join(words, " ")} }

func runOn(node string, words ...string) Mend { return Mend{On: node, Run: strings.Join(words, " ")} }

func say(words ...string) Mend { return Mend{Say: strings.Join(words, " ")} }

// plain is a word that a shell takes as it stands.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`)

// Quoted is a word for a shell. Names come from whoever wrote the objects, or the bundle.
func Quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// SetSysctl are the commands that change a setting, with slashes or dots in its name, now and from the next boot on. Each setting has a file of its own,
// which is written anew each time, and is read after those of distributions, such as 99-sysctl.conf.
func SetSysctl(name, value string) (now, boot string) {
	if !strings.Contains(name, ".") { // else a dot belongs to an interface's name
		name = strings.ReplaceAll(name, "/", ".")
	}
	setting, file := Quoted(name+"="+value), SysctlFiles+strings.ReplaceAll(name, "/", "-")+".conf"
	return "sysctl -w " + setting, "echo " + setting + " >" + Quoted(file)
}

// SysctlFiles is the start of the names of the files that commands keep settings in.
const SysctlFiles = "/etc/sysctl.d/99-zz-plinth-"

// kubectl is a command for an object in a namespace; empty: it has none.
func kubectl(namespace string, words ...string) Mend {
	command := "kubectl"
	if namespace != "" {
		command += " -n " + Quoted(namespace)
	}
	return Mend{Run: command + " " + strings.Join(words, " ")}
}

// remove is the command that deletes an object.
func (o Object) remove() Mend { return kubectl(o.Namespace, "delete", o.Kind, Quoted(o.Name)) }

// String names the object.
func (o Object) String() string {
	if o.Namespace != "" {
		return o.Kind + " " + o.Namespace + "/" + o.Name
	}
	return o.Kind + " " + o.Name
}

func sortFindings(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Message, b.Message), cmp.Compare(fmt.Sprint(a.Mend), fmt.Sprint(b.Mend)))
	})
}

// some names the first of many.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
