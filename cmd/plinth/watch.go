package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
)

// viewFlags say in which form something is shown, and whether once.
type viewFlags struct {
	output string
	watch  bool
	every  time.Duration
	clock  clock
}

// clock tells the time, and when some has passed.
type clock struct {
	now   func() time.Time
	after func(time.Duration) <-chan time.Time
}

func (v *viewFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&v.output, "output", "o", "text", "text, wide, json or yaml")
	cmd.Flags().BoolVarP(&v.watch, "watch", "w", false, "show it again and again, until it is interrupted")
	cmd.Flags().DurationVar(&v.every, "every", 2*time.Second, "with --watch, the time from one look to the next; at least 1s")
	v.clock = clock{time.Now, time.After}
}

// wipe moves to the top left of a terminal, and wipes what is below (ECMA-48: CUP, ED).
const wipe = "\x1b[H\x1b[J"

// show prints the output of look, once or until it is interrupted. It ends with exit code 1 where
// the last look did not find all well.
func (v viewFlags) show(cmd *cobra.Command, look func(context.Context, io.Writer) (well bool, err error)) error {
	if !v.watch {
		well, err := look(cmd.Context(), cmd.OutOrStdout())
		return ended(well, err)
	}
	if v.output == "json" || v.output == "yaml" {
		return exit{exitUsage, fmt.Errorf("-o %s cannot be watched: want text or wide", v.output)}
	}
	if v.every < time.Second {
		return exit{exitUsage, fmt.Errorf("--every %v: want 1s or more", v.every)}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	return v.again(ctx, cmd.OutOrStdout(), look)
}

// again draws until ctx ends. A look that fails is drawn, too: the API server may be back by the next.
func (v viewFlags) again(ctx context.Context, out io.Writer, look func(context.Context, io.Writer) (bool, error)) error {
	for {
		var page bytes.Buffer
		well, err := look(ctx, &page)
		if errors.Is(err, context.Canceled) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			page.Reset()
			fmt.Fprintln(&page, "Error:", err)
		}
		fmt.Fprintf(out, "%s%s, every %v\n\n%s", wipe, v.clock.now().UTC().Format(time.RFC3339), v.every, page.Bytes())
		select {
		case <-ctx.Done():
			return ended(well, err)
		case <-v.clock.after(v.every):
		}
	}
}

func ended(well bool, err error) error {
	switch {
	case err != nil:
		return err
	case !well:
		return exit{code: exitDegraded}
	}
	return nil
}
