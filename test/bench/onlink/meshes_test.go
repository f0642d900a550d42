package onlink

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"plinth.dev/plinth/test/lab"
)

// sample is one line of an agent's metrics.
type sample struct {
	labels string // as they are printed
	value  float64
}

// metrics are the samples of one name. Unlike /status they are as they are when they are asked for.
func (t *turn) metrics(ctx context.Context, machine, name string) (all []sample, err error) {
	text, err := t.AgentMetrics(ctx, machine)
	if err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		labels, is := strings.CutPrefix(lines.Text(), name+"{")
		if !is {
			continue
		}
		labels, number, _ := strings.Cut(labels, "} ")
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return nil, fmt.Errorf("metrics of the agent of %s: %q: %w", machine, lines.Text(), err)
		}
		all = append(all, sample{labels, value})
	}
	return all, nil
}

// losses counts how often each machine has lost each other one so far, in each subnet.
func (t *turn) losses() map[string]int {
	t.b.Helper()
	all := map[string]int{}
	for _, m := range t.agentsOn {
		samples, err := t.metrics(t.b.Context(), m, "plinth_agent_link_losses_total")
		check(t.b, err)
		if len(samples) == 0 {
			t.b.Fatalf("the agent of %s counts no losses", m)
		}
		for _, s := range samples {
			all[m+" of "+s.labels] = int(s.value)
		}
	}
	return all
}

// lostSince counts the losses since others were counted, and tells of each.
func (t *turn) lostSince(before map[string]int) (sum int) {
	t.b.Helper()
	for way, n := range t.losses() {
		if n > before[way] {
			t.tell("%s: lost %d times", way, n-before[way])
			sum += n - before[way]
		}
	}
	return sum
}

// waitMesh waits until the agents of these machines say that as many others are up.
func (t *turn) waitMesh(machines ...string) {
	t.b.Helper()
	t.waitUp(len(machines)-1, machines...)
}

// waitUp waits until the agents of these machines say that so many others are up.
func (t *turn) waitUp(others int, machines ...string) {
	t.b.Helper()
	check(t.b, lab.Within(t.b.Context(), time.Minute, func(ctx context.Context) error {
		for _, m := range machines {
			samples, err := t.metrics(ctx, m, "plinth_agent_link_machines")
			if err != nil {
				return err
			}
			up := 0
			for _, s := range samples {
				if !strings.Contains(s.labels, `standing="up"`) {
					continue
				}
				if up++; int(s.value) < others {
					return fmt.Errorf("to %s %.0f machines are up (%s), want %d", m, s.value, s.labels, others)
				}
			}
			if up == 0 && others > 0 {
				return fmt.Errorf("to %s nobody is up", m)
			}
		}
		return nil
	}))
}
