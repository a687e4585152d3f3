package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "example.com/sluice/client/sluicev1"
)

const soon = time.Minute // long, because the machine may be busy

// fake is a server that grants leases and notes the calls.
type fake struct {
	pb.UnimplementedRateLimiterServer
	ttl      time.Duration // of the leases
	failures int32         // so many further calls fail with UNAVAILABLE
	calls    chan string   // the names of the calls that succeed
	outcomes chan pb.HoldOutcome
}

func (f *fake) CheckLimit(context.Context, *pb.CheckLimitRequest) (*pb.CheckLimitResponse, error) {
	return &pb.CheckLimitResponse{Decision: pb.Decision_DECISION_ALLOWED,
		Lease: &pb.Lease{Id: "lease", Ttl: durationpb.New(f.ttl)}}, nil
}

func (f *fake) RenewLease(context.Context, *pb.RenewLeaseRequest) (*pb.RenewLeaseResponse, error) {
	return &pb.RenewLeaseResponse{}, nil
}

func (f *fake) ReleaseLease(_ context.Context, r *pb.ReleaseLeaseRequest) (*pb.ReleaseLeaseResponse, error) {
	f.outcomes <- r.GetHoldOutcome()
	return &pb.ReleaseLeaseResponse{}, nil
}

func (f *fake) SettleLease(_ context.Context, r *pb.SettleLeaseRequest) (*pb.SettleLeaseResponse, error) {
	f.outcomes <- r.GetHoldOutcome()
	return &pb.SettleLeaseResponse{Outcome: pb.Outcome_OUTCOME_SETTLED}, nil
}

// serve starts a fake server and connects a client to it.
func serve(t *testing.T, ttl time.Duration, options Options) (*fake, *Client) {
	t.Helper()
	f := &fake{ttl: ttl, calls: make(chan string, 1000), outcomes: make(chan pb.HoldOutcome, 1000)}
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, request interface{},
		info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (interface{}, error) {
		if atomic.AddInt32(&f.failures, -1) >= 0 {
			return nil, status.Error(codes.Unavailable, "the store does not answer")
		}
		f.calls <- path.Base(info.FullMethod)
		return handler(ctx, request)
	}))
	pb.RegisterRateLimiterServer(server, f)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	options.Deadline, options.Drain = soon, soon
	c, err := New(listener.Addr().String(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, c
}

// await waits until a call of this name succeeds.
func (f *fake) await(t *testing.T, name string) {
	t.Helper()
	for timeout := time.After(soon); ; {
		select {
		case call := <-f.calls:
			if call == name {
				return
			}
		case <-timeout:
			t.Fatal("no", name)
		}
	}
}

func check(t *testing.T, c *Client) Decision {
	t.Helper()
	decision, err := c.Check(context.Background(), "shop", Attributes{})
	if err != nil {
		t.Fatal(err)
	}
	return decision
}

func reserve(t *testing.T, c *Client) *Reservation {
	t.Helper()
	reservation, err := c.Reserve(context.Background(), "shop", Attributes{})
	if err != nil {
		t.Fatal(err)
	}
	return reservation
}

// flaky are credentials that fail or panic once for each value in `next`.
type flaky struct{ next chan error }

var errToken = errors.New("the token is being replaced")

func (f flaky) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	select {
	case err := <-f.next:
		if err == nil {
			panic(errToken)
		}
		return nil, err
	default:
		return map[string]string{"authorization": "Bearer t"}, nil
	}
}

func (flaky) RequireTransportSecurity() bool { return false }

func TestCallsInTheBackgroundAreRepeatedAfterTheCredentialsFail(t *testing.T) {
	for name, failure := range map[string]error{"error": errToken, "panic": nil} {
		t.Run(name, func(t *testing.T) {
			token := flaky{make(chan error)}
			options := Options{DialOptions: []grpc.DialOption{grpc.WithPerRPCCredentials(token)}}
			f, c := serve(t, 300*time.Millisecond, options)
			release := c.Hold(check(t, c))
			token.next <- failure // taken by a renewal
			f.await(t, "RenewLease")
			release(nil)
			f.await(t, "ReleaseLease")

			failing := flaky{make(chan error, 1)}
			options.DialOptions = []grpc.DialOption{grpc.WithPerRPCCredentials(failing)}
			f, c = serve(t, time.Hour, options)
			release = c.Hold(check(t, c))
			failing.next <- failure
			release(nil)
			f.await(t, "ReleaseLease")
			reservation := reserve(t, c)
			failing.next <- failure
			reservation.Settle(nil)
			f.await(t, "SettleLease")
		})
	}
}

func TestACheckReturnsTheErrorOfTheCredentials(t *testing.T) {
	token := flaky{make(chan error, 1)}
	_, c := serve(t, time.Hour, Options{DialOptions: []grpc.DialOption{grpc.WithPerRPCCredentials(token)}})
	token.next <- errToken
	_, err := c.Check(context.Background(), "shop", Attributes{})
	if err == nil || !strings.Contains(err.Error(), errToken.Error()) {
		t.Fatal(err)
	}
}

// lines is a log. Safe for concurrent use.
type lines struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(line)
}

func TestNoReleaseOrSettlementIsLostIfOverloadedPanics(t *testing.T) {
	written := &lines{}
	defer log.SetOutput(log.Writer())
	log.SetOutput(written)
	f, c := serve(t, time.Hour, Options{Overloaded: func() bool { panic("no cgroup") }})
	c.Hold(check(t, c))(nil)
	f.await(t, "ReleaseLease")
	reserve(t, c).Settle(nil)
	f.await(t, "SettleLease")
	for range [2]int{} {
		if outcome := <-f.outcomes; outcome != pb.HoldOutcome_HOLD_OUTCOME_OK {
			t.Fatal(outcome)
		}
	}
	written.mutex.Lock()
	defer written.mutex.Unlock()
	if text := written.text.String(); strings.Count(text, "Overloaded panics: no cgroup") != 1 {
		t.Fatal(text)
	}
}

func TestRenewalsAndReleasesAreRepeatedAfterUnavailable(t *testing.T) {
	f, c := serve(t, 300*time.Millisecond, Options{})
	release := c.Hold(check(t, c))
	f.await(t, "CheckLimit")
	atomic.StoreInt32(&f.failures, 2)
	f.await(t, "RenewLease")
	release(nil)
	f.await(t, "ReleaseLease")

	f, c = serve(t, time.Hour, Options{})
	release = c.Hold(check(t, c))
	atomic.StoreInt32(&f.failures, 2)
	release(nil)
	f.await(t, "ReleaseLease")
}

// A server that accepts the connection and then hangs.
func TestTheConnectionToAHungServerIsClosed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	closed := make(chan error, 1)
	go func() {
		connection, err := listener.Accept()
		if err == nil {
			_, err = connection.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // SETTINGS
		}
		if err == nil {
			_, _ = io.Copy(io.Discard, connection)
		}
		closed <- err
	}()
	c, err := New(listener.Addr().String(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	select {
	case err := <-closed:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(soon):
		t.Fatal("the client keeps the connection")
	}
}
