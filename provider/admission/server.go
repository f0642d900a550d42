package admission

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/wake"
)

// Limits on requests of strangers: the port is open to any host that reaches the machine.
const (
	bodyBytes   = 8 << 20 // two ConfigMaps of 1 MiB, as JSON
	atOnce      = 4
	ioTimeout   = 10 * time.Second
	idleTimeout = 2 * time.Minute
)

// How often the certificate is looked at, and how soon again after a failure.
const (
	lookEvery  = time.Minute
	retryEvery = 5 * time.Second
)

// Server serves the webhook.
type Server struct {
	Client    kubernetes.Interface
	Namespace string
	Address   string // host:port to listen on
	Log       *slog.Logger

	validity time.Duration // of certificates; zero: a year
	serving  atomic.Pointer[tls.Certificate]
	slots    chan struct{}
	failed   string // what was last logged
}

// Run serves until ctx ends. What fails is logged, and tried again: a controller does its work
// without its webhook, too.
func (s *Server) Run(ctx context.Context) {
	go s.keepCertificate(ctx)
	said := ""
	for ctx.Err() == nil {
		listener, err := net.Listen("tcp", s.Address)
		if err == nil {
			err = s.serve(ctx, listener)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if err.Error() != said {
			s.Log.Error("cannot serve the inventory webhook", "address", s.Address, "err", err)
		}
		said = err.Error()
		wake.After(ctx, retryEvery)
	}
}

// serve answers on a listener until ctx ends.
func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	s.slots = make(chan struct{}, atOnce)
	server := &http.Server{
		Handler:           http.HandlerFunc(s.answer),
		ReadHeaderTimeout: ioTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug), // of strangers
		TLSConfig:      &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate},
		TLSNextProto:   map[string]func(*http.Server, *tls.Conn, http.Handler){}, // no HTTP/2: one request at a time on each connection
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	return server.ServeTLS(listener, "", "")
}

// certificate returns the certificate that the webhook serves the API server with.
func (s *Server) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := s.serving.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("the webhook has no certificate yet")
}

// answer reads a review and writes its response.
func (s *Server) answer(response http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		http.Error(response, "a review is posted", http.StatusMethodNotAllowed)
		return
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-request.Context().Done():
		return
	}
	var review admissionv1.AdmissionReview
	err := json.NewDecoder(http.MaxBytesReader(response, request.Body, bodyBytes)).Decode(&review)
	if err == nil && (review.Request == nil || review.GroupVersionKind() != admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")) {
		err = errors.New("it has no request of admission.k8s.io/v1")
	}
	if err != nil {
		http.Error(response, fmt.Sprintf("not an AdmissionReview that is read here: %v", err), http.StatusBadRequest)
		return
	}
	response.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(response).Encode(admissionv1.AdmissionReview{ // whoever asked may be gone
		TypeMeta: metav1.TypeMeta{APIVersion: review.APIVersion, Kind: review.Kind},
		Response: Review(review.Request),
	})
}

// keepCertificate looks at the certificate now and then, and logs what goes wrong once.
func (s *Server) keepCertificate(ctx context.Context) {
	for ctx.Err() == nil {
		next := lookEvery
		err := s.reconcile(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			if next = retryEvery; err.Error() != s.failed {
				s.Log.Error("cannot keep the certificate of the inventory webhook in order", "err", err)
			}
			s.failed = err.Error()
		case err == nil:
			s.failed = ""
		}
		wake.After(ctx, next)
	}
}
