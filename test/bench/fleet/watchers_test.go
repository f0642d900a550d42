package fleet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/test/apiserver"
)

// watchers is the process that watches for many Nodes. See TestFleet of provider/agent for what it is told and prints.
type watchers struct {
	b    *testing.B
	cmd  *exec.Cmd
	in   io.WriteCloser
	log  string
	done chan struct{} // closed when all that it printed is read

	mu      sync.Mutex
	printed map[string]printed
}

// printed are the latest numbers that the process printed of something.
type printed struct {
	numbers []int
	at      time.Time
	count   int // how often it printed of it
}

// startWatchers starts the process that watches as a contender does, and has its clients made.
func (s *stand) startWatchers(c contender) *watchers {
	s.b.Helper()
	p := &watchers{b: s.b, printed: map[string]printed{}, done: make(chan struct{}), log: filepath.Join(s.b.TempDir(), "watchers.log")}
	log, err := os.Create(p.log)
	check(s.b, err)
	defer log.Close()
	p.cmd = exec.Command(program, "-test.run=^TestFleet$", "-test.timeout=0", "-fleet.watch="+c.name, "-fleet.kubeconfig="+c.kubeconfig, "-fleet.nodes="+strings.Join(watchedNodes(), ","))
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.in, err = p.cmd.StdinPipe()
	check(s.b, err)
	out, err := p.cmd.StdoutPipe()
	check(s.b, err)
	check(s.b, p.cmd.Start())
	s.b.Cleanup(p.end)
	go p.read(out)
	p.until(time.Minute, "built", *watched)
	return p
}

// watchedNodes are the names of Nodes that have a watcher, from all racks alike. The last Node has none: it comes and goes.
func watchedNodes() (names []string) {
	for i := range *watched {
		names = append(names, apiserver.MachineName(i*(*nodes-1) / *watched))
	}
	return names
}

// read notes what the process prints.
func (p *watchers) read(out io.Reader) {
	defer close(p.done)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		what, numbers := parseLine(lines.Text())
		if what == "" {
			continue // it is not of ours
		}
		p.mu.Lock()
		p.printed[what] = printed{numbers, time.Now(), p.printed[what].count + 1}
		p.mu.Unlock()
	}
}

// parseLine takes the numbers at the end of a line from what it says; empty: there are none.
func parseLine(line string) (what string, numbers []int) {
	words := strings.Fields(line)
	for len(words) > 1 {
		n, err := strconv.Atoi(words[len(words)-1])
		if err != nil {
			break
		}
		words, numbers = words[:len(words)-1], append([]int{n}, numbers...)
	}
	if len(numbers) == 0 {
		return "", nil
	}
	return strings.Join(words, " "), numbers
}

func (p *watchers) tell(word string) {
	p.b.Helper()
	_, err := fmt.Fprintln(p.in, word)
	check(p.b, err)
}

func (p *watchers) latest(what string) printed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.printed[what]
}

// until waits until the process has printed that so many watchers are so far, and returns when it did.
func (p *watchers) until(limit time.Duration, what string, n int) time.Time {
	p.b.Helper()
	apiserver.Eventually(p.b, limit, fmt.Sprintf("the watchers print %q of %d", what, n), func(context.Context) error {
		if now := p.latest(what); len(now.numbers) != 1 || now.numbers[0] != n {
			return fmt.Errorf("they printed %s; their log ends\n%s", p, p.tail())
		}
		return nil
	})
	return p.latest(what).at
}

// carried asks for the bytes that the watchers have received, the connections that they have opened, the events of
// EndpointSlices that they have got, and the watches that they have begun.
func (p *watchers) carried() (bytes, dials, events, watches float64) {
	p.b.Helper()
	before := p.latest("carried").count
	p.tell("count")
	apiserver.Eventually(p.b, 10*time.Second, "the watchers print what they have received", func(context.Context) error {
		if now := p.latest("carried"); now.count == before || len(now.numbers) != 4 {
			return fmt.Errorf("they printed %s; their log ends\n%s", p, p.tail())
		}
		return nil
	})
	numbers := p.latest("carried").numbers
	return float64(numbers[0]), float64(numbers[1]), float64(numbers[2]), float64(numbers[3])
}

// renew has all watches end and go on, and returns how many there were.
func (p *watchers) renew() (watches float64) {
	p.b.Helper()
	before := p.latest("renewed").count
	p.tell("renew")
	apiserver.Eventually(p.b, 10*time.Second, "the watchers print how many watches ended", func(context.Context) error {
		if now := p.latest("renewed"); now.count == before || len(now.numbers) != 1 {
			return fmt.Errorf("they printed %s; their log ends\n%s", p, p.tail())
		}
		return nil
	})
	return float64(p.latest("renewed").numbers[0])
}

// String is what it printed last of each thing.
func (p *watchers) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(p.printed)) {
		all = append(all, fmt.Sprint(what, " ", p.printed[what].numbers))
	}
	return strings.Join(all, ", ")
}

// tail is the end of what went wrong in the process.
func (p *watchers) tail() string {
	const most = 2000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// end has the process end, and waits until it has.
func (p *watchers) end() {
	p.in.Close()
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	_ = p.cmd.Wait()
}

func TestALineIsReadFromItsEnd(t *testing.T) {
	for line, want := range map[string]string{
		"ready 7": "ready [7]", "mark 65010:2 12": "mark 65010:2 [12]", "carried 1024 3 9": "carried [1024 3 9]", "PASS": " []", "": " []", "7": " []",
	} {
		what, numbers := parseLine(line)
		if got := fmt.Sprint(what, " ", numbers); got != want {
			t.Errorf("%q is %q, want %q", line, got, want)
		}
	}
}

func TestWatchedNodesAreOfAllRacks(t *testing.T) {
	names := watchedNodes()
	if slices.Contains(names, apiserver.MachineName(*nodes-1)) || len(slices.Compact(slices.Clone(names))) != *watched || names[*watched-1] < apiserver.MachineName(*nodes - 2**nodes / *watched) {
		t.Errorf("they are %v", names)
	}
}
