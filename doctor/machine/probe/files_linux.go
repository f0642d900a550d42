package probe

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"plinth.dev/plinth/doctor"
)

// container notes whether it runs in one, by what programs that make containers leave there: files of the host are not to be had then.
func (r *reader) container(root string) {
	for _, file := range []string{".dockerenv", "run/.containerenv"} {
		_, err := os.Stat(filepath.Join(root, file))
		r.facts.Container = r.facts.Container || err == nil
	}
	r.facts.Container = r.facts.Container || os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}

// sysctlFolders are the folders of settings, by sysctl.d(5); of files with the same name the first counts.
var sysctlFolders = []string{"etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d", "lib/sysctl.d"}

// sysctlFiles notes which files below a folder set what may have to be changed.
func (r *reader) sysctlFiles(root string) {
	byName := map[string]string{}
	for _, folder := range sysctlFolders {
		files, _ := filepath.Glob(filepath.Join(root, folder, "*.conf")) // its error is of the pattern
		for _, file := range files {
			if name := filepath.Base(file); byName[name] == "" {
				byName[name] = file
			}
		}
	}
	r.facts.SysctlFiles = map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		r.sysctlFile(byName[name])
	}
	r.sysctlFile(filepath.Join(root, "etc/sysctl.conf")) // sysctl --system reads it last
}

// sysctlFile notes the settings of a file, unless it is written by a command of a finding.
func (r *reader) sysctlFile(file string) {
	text, err := os.ReadFile(file)
	if err != nil || strings.HasPrefix(filepath.Base(file), "99-zz-plinth-") {
		return
	}
	for line := range strings.Lines(string(text)) {
		name, _, is := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "-"), "=")
		if name = strings.TrimSpace(name); !is || strings.HasPrefix(name, "#") || strings.HasPrefix(name, ";") {
			continue
		}
		if first := strings.IndexAny(name, "./"); first >= 0 && name[first] == '.' { // then dots stand for slashes and slashes for dots
			name = strings.NewReplacer(".", "/", "/", ".").Replace(name)
		}
		if r.mayChange(name) && !slices.Contains(r.facts.SysctlFiles[name], file) {
			r.facts.SysctlFiles[name] = append(r.facts.SysctlFiles[name], file)
		}
	}
}

// mayChange tells whether a finding may be about a setting.
func (r *reader) mayChange(name string) bool {
	_, read := r.facts.Sysctls[name]
	return read || slices.ContainsFunc(r.facts.Settings, func(s doctor.Setting) bool { return s.Name == name })
}
