package claim

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"plinth.dev/plinth/durable"
	"plinth.dev/plinth/inventory"
)

// How often the file is written: soon after something has changed, now and then when only the
// count of writes has, and at once, as the last word, when the cluster does not answer any
// more.
const (
	writtenEvery = 2 * time.Second
	countedEvery = time.Minute
	writtenAgain = time.Minute // after a failure
	readWithin   = 2 * time.Second

	fileFormat = 1 // the number of the file's format; without one it is the first
)

// written is the journal as it stands in its file.
type written struct {
	Format int
	Writes int64 // 0: an older version wrote it
	Claims map[netip.Addr]Entry
	Before map[netip.Addr]Entry `json:",omitempty"`
	BackAt time.Time            `json:",omitzero"`
}

// Load takes in what this process's predecessor wrote down: should the first count of writes
// that is read be smaller, it was known before a restore. Without a file, or when it cannot be
// read, nothing is known.
func (j *Journal) Load() {
	if j.file == "" {
		return
	}
	late := time.AfterFunc(readWithin, func() {
		j.log.Error("which VIPs were held before is being read for long, and this process neither leads nor answers probes before it is; does the disk answer?", "file", j.file)
	})
	text, err := os.ReadFile(j.file)
	late.Stop()
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var head struct{ Format int } // of a newer one all else may have another form
	var w written
	if err == nil {
		err = json.Unmarshal(text, &head)
	}
	switch {
	case err == nil && head.Format > fileFormat:
		err = &inventory.NewerFormatError{Object: "file " + j.file, Format: strconv.Itoa(head.Format), Reads: fileFormat}
	case err == nil:
		err = json.Unmarshal(text, &w)
	}
	if err != nil {
		j.log.Error("cannot read which VIPs were held before, and goes on without", "file", j.file, "err", err)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writes, j.before, j.backAt = w.Writes, w.Before, w.BackAt
	j.previous = w.Claims
}

// keep writes the journal down until ctx ends. A disk that is full, or hangs, is in nobody's
// way: nothing is locked meanwhile.
func (j *Journal) keep(ctx context.Context) {
	durable.RemoveParts(j.file)
	last := revision{at: j.now()}
	for ctx.Err() == nil {
		pause := writtenEvery
		if text, next := j.due(last); text != nil {
			if err := j.write(text); err != nil {
				j.log.Error("cannot write down which VIPs are held; will try again", "file", j.file, "err", err)
				pause = writtenAgain
			} else {
				last = next
			}
		}
		sleep(ctx, pause)
	}
}

// revision tells apart what was written down when.
type revision struct {
	changes int
	writes  int64
	at      time.Time
}

// due returns what is to be written down now; nil: nothing.
func (j *Journal) due(last revision) ([]byte, revision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	next := revision{j.changes, j.writes, j.now()}
	counted := next.writes != last.writes && (j.silent || next.at.Sub(last.at) >= countedEvery)
	if j.previous != nil || next.changes == last.changes && !counted { // or else the first list has not come yet
		return nil, last
	}
	text, _ := json.Marshal(written{fileFormat, j.writes, j.entries(), j.before, j.backAt}) // of such a type it always succeeds
	return text, next
}

func (j *Journal) write(text []byte) error {
	if err := os.MkdirAll(filepath.Dir(j.file), 0o700); err != nil {
		return err
	}
	return durable.Replace(j.file, text)
}
