package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/routerconfig"
)

func newRouterConfigCommand() *cobra.Command {
	var language string
	var standalone, dynamic bool
	var passwordFiles []string
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use:   "router-config ROUTER INVENTORY...",
		Short: "Print the router's side of every session that machines have with it",
		Long: fmt.Sprintf(`Print the router's side of every session that machines have with it.

ROUTER is the name of a router in the inventory; INVENTORY is any number of files
and folders, - for the standard input, or the word cluster for what is in force there.

What is printed is one part of the router's own configuration: its neighbours,
what they may announce, and how. Interfaces, addresses and other neighbours are
the router's own. With --standalone it is a whole configuration, for languages in
which there is more to a router than BGP.

Languages: %s.

No password is read from a cluster. Without --password-file, a comment stands
where the password belongs.`, strings.Join(inventory.Languages(), ", ")),
		Example: `  plinth router-config gateway --os frr home.yaml > plinth.conf && vtysh -f plinth.conf
  plinth router-config tor-r02 --os bird inventory/ > /etc/bird/plinth.conf && birdc configure
  plinth router-config tor-r01 --password-file bgp/tor=./tor.key inventory/`,
		Args: usage(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			passwords, err := readPasswords(passwordFiles)
			if err != nil {
				return err
			}
			inv, err := load(cmd, cluster, args[1:])
			if err != nil {
				return err
			}
			text, err := routerconfig.Render(inv, args[0], language, routerconfig.Options{Standalone: standalone, Dynamic: dynamic, Passwords: passwords})
			if errors.Is(err, routerconfig.ErrNoOS) || errors.Is(err, routerconfig.ErrNoRouter) {
				return exit{exitUsage, err}
			}
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cluster.addTo(cmd)
	cmd.Flags().StringVar(&language, "os", "", "language of the router (default: that of the router in the inventory)")
	cmd.Flags().BoolVar(&standalone, "standalone", false, "print a whole configuration, not a part of one")
	cmd.Flags().BoolVar(&dynamic, "dynamic", false, "let in every address of the racks' subnets instead of one neighbour a machine (frr, bird)")
	cmd.Flags().StringArrayVar(&passwordFiles, "password-file", nil, "SECRET/KEY=FILE: a file that holds the password that machines take from this key of this Secret; may be given several times")
	return cmd
}

// readPasswords reads the passwords in files that are given as SECRET/KEY=FILE.
func readPasswords(args []string) (map[inventory.SecretKey]string, error) {
	out := map[inventory.SecretKey]string{}
	for _, arg := range args {
		of, file, ok := strings.Cut(arg, "=")
		secret, key, ok2 := strings.Cut(of, "/")
		if !ok || !ok2 {
			return nil, exit{exitUsage, fmt.Errorf("--password-file %q: want SECRET/KEY=FILE", arg)}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		out[inventory.SecretKey{Secret: secret, Key: key}] = inventory.PasswordIn(string(text))
	}
	return out, nil
}
