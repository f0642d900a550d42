package source

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"plinth.dev/plinth/inventory/document"
)

// Files follows a file or a folder. It looks at the bytes rather than at
// notifications, which neither Kubernetes' symlink swaps nor network file
// systems deliver reliably; reading some megabytes once a second costs nothing.
type Files struct {
	Path  string
	Every time.Duration // between two looks; 1 s where it is zero
	Log   *slog.Logger
}

// Run implements [Source]. An edit is handed out when two looks in succession
// saw the same bytes, so that a file that is being written is not taken for one
// that was.
func (f Files) Run(ctx context.Context, set func(Edit)) error {
	every := f.Every
	if every == 0 {
		every = time.Second
	}
	look := time.NewTicker(every)
	defer look.Stop()
	seen := watched{log: f.Log, path: f.Path}
	for {
		seen.look(set)
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// watched is a path, and the results of its last reads.
type watched struct {
	path    string
	log     *slog.Logger
	last    Edit
	once    bool // there was a look that could read everything
	handed  bool // last was handed out
	failure string
}

func (w *watched) look(set func(Edit)) {
	proposed, err := Read(w.path)
	if err != nil {
		w.reportError(err)
		return
	}
	w.failure = ""
	same := w.once && proposed.same(w.last)
	switch {
	case same && !w.handed:
		w.handed = true
		set(proposed)
	case !same:
		w.last, w.once, w.handed = proposed, true, false
	}
}

// reportError logs a failure to read once, not at every look. The last edit
// remains: a folder that is gone for a moment is not an empty one.
func (w *watched) reportError(err error) {
	if w.log != nil && w.failure != err.Error() {
		w.log.Error("cannot read the inventory", "path", w.path, "err", err)
	}
	w.failure = err.Error()
}

// Read reads a file, or all files of a folder and its subfolders whose names
// end in .yaml, .yml or .json, sorted by name. Names that begin with a dot are
// passed over, which includes the folders that a mounted ConfigMap's links lead to. See [ReadText]
// for other files and documents in them.
func Read(path string) (Edit, error) {
	var proposed Edit
	texts, err := Texts(path, nil)
	for _, t := range texts {
		proposed.addText(t.Source, t.Data)
	}
	return proposed, err
}

// Texts are the bytes of the files that [Read] reads, whatever stands in them, and of those of a folder that also names by
// their path. also may be nil.
func Texts(path string, also func(file string) bool) ([]document.Document, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return textsOfFolder(nil, path, also)
	}
	return textOfFile(nil, path)
}

func textsOfFolder(texts []document.Document, folder string, also func(string) bool) ([]document.Document, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return texts, err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		switch {
		case entry.IsDir():
			texts, err = textsOfFolder(texts, path, also)
		case entry.Type()&fs.ModeType&^fs.ModeSymlink == 0 && (carries(path) || also != nil && also(path)):
			texts, err = textOfFile(texts, path)
		}
		if err != nil {
			return texts, err
		}
	}
	return texts, nil
}

func textOfFile(texts []document.Document, path string) ([]document.Document, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return texts, err
	}
	return append(texts, document.Document{Source: path, Data: data}), nil
}
