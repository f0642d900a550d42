package main

import (
	"context"

	"k8s.io/cloud-provider/app/config"

	"plinth.dev/plinth/provider"
	"plinth.dev/plinth/provider/admission"
)

// serveWebhook has this process judge edits of the inventory, whether it leads or not. Its client
// was made before the fence: what it writes, every replica may write.
func serveWebhook(c *config.CompletedConfig, o provider.Options) {
	if o.Webhook == "" {
		return
	}
	server := &admission.Server{Client: c.Client, Namespace: o.Namespace, Address: o.Webhook, Log: o.Log}
	go server.Run(context.Background())
}
