package main

import (
	"context"

	"k8s.io/cloud-provider/app/config"

	"plinth.dev/plinth/provider"
	"plinth.dev/plinth/provider/admission"
)

// serveWebhook serves the webhook that judges edits of the inventory, whether this process leads or not. Its client
// was made before the fence: every replica may write what it writes.
func serveWebhook(c *config.CompletedConfig, o provider.Options) {
	if o.Webhook == "" {
		return
	}
	server := &admission.Server{Client: c.Client, Namespace: o.Namespace, Address: o.Webhook, Log: o.Log}
	go server.Run(context.Background())
}
