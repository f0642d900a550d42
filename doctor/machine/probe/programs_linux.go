package probe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"plinth.dev/plinth/doctor/machine"
)

// programs notes which of the programs run that checks look for. Of one whose network namespace may not be looked at it is taken to be this.
func (r *reader) programs() {
	inNamespace, anywhere := machine.ProgramsRead()
	own, _ := os.Readlink("/proc/thread-self/ns/net")
	folders, err := filepath.Glob("/proc/[0-9]*")
	r.unless("programs", err)
	for _, folder := range folders {
		for _, name := range namesOf(folder) {
			if slices.Contains(anywhere, name) {
				r.facts.Programs = append(r.facts.Programs, name)
				continue
			}
			namespace, err := os.Readlink(folder + "/ns/net")
			if slices.Contains(inNamespace, name) && (err != nil || namespace == own) {
				r.facts.Programs = append(r.facts.Programs, name)
			}
		}
	}
	slices.Sort(r.facts.Programs)
	r.facts.Programs = slices.Compact(r.facts.Programs)
}

// namesOf are the name that a process gives itself, which everybody may read, and that of its program's file.
func namesOf(folder string) (names []string) {
	if comm, err := os.ReadFile(folder + "/comm"); err == nil {
		names = append(names, strings.TrimSpace(string(comm)))
	}
	if exe, err := os.Readlink(folder + "/exe"); err == nil {
		names = append(names, filepath.Base(strings.TrimSuffix(exe, " (deleted)")))
	}
	return names
}
