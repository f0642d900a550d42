// Command lab-csi is the part of a CSI driver that runs on each machine of the lab: it
// mounts a volume, which is a folder of the host that all machines see, where a pod
// wants it. It attaches nothing; who says that a volume is attached is a test.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"plinth.dev/plinth/test/lab/machine"
)

// Where the kubelet looks for drivers, and where this one is spoken to.
const (
	registry = "/var/lib/kubelet/plugins_registry/" + machine.CSIDriver + "-reg.sock"
	socket   = "/var/lib/kubelet/plugins/" + machine.CSIDriver + "/csi.sock"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: lab-csi NODE FOLDER")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, driver{node: os.Args[1], folder: os.Args[2]}); err != nil {
		fmt.Fprintln(os.Stderr, "lab-csi:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, d driver) error {
	ended := make(chan error, 2)
	for _, s := range []struct {
		socket   string
		register func(*grpc.Server)
	}{
		{socket, func(s *grpc.Server) { csi.RegisterIdentityServer(s, d); csi.RegisterNodeServer(s, d) }},
		{registry, func(s *grpc.Server) { registration.RegisterRegistrationServer(s, d) }},
	} {
		// What the last run left would keep us from listening.
		if err := errors.Join(os.MkdirAll(filepath.Dir(s.socket), 0o750), os.RemoveAll(s.socket)); err != nil {
			return err
		}
		listener, err := net.Listen("unix", s.socket)
		if err != nil {
			return err
		}
		server := grpc.NewServer()
		s.register(server)
		go func() { ended <- server.Serve(listener) }()
		defer server.Stop()
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// driver is CSI's Identity and Node services, and the kubelet's Registration.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	node, folder string
}

func (d driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: machine.CSIDriver, Endpoint: socket, SupportedVersions: []string{"1.0.0"}}, nil
}

func (d driver) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		fmt.Fprintln(os.Stderr, "lab-csi: the kubelet does not take it:", status.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

func (d driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: machine.CSIDriver, VendorVersion: "1"}, nil
}

func (d driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

func (d driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (d driver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	volume := filepath.Join(d.folder, r.VolumeId)
	if err := errors.Join(os.MkdirAll(volume, 0o777), os.MkdirAll(r.TargetPath, 0o750)); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, unix.Mount(volume, r.TargetPath, "", unix.MS_BIND, "")
}

func (d driver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	// Not mounted, or not there: the kubelet asks again until it hears that it is done.
	if err := unix.Unmount(r.TargetPath, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, os.RemoveAll(r.TargetPath)
}
