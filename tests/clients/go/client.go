// Go's gRPC library (Debian's golang-google-grpc-dev) as a client of sluiced. ../run.py describes
// the test cases.
//
// Usage: client FLAG...
// run.py passes the flags and describes them.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding/gzip"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	pb "sluice/v1"
)

const (
	timeout = 20 * time.Second // longer than any call takes
	many    = 100_000          // the burst of /many
	mib     = 1 << 20
)

var (
	address = flag.String("address", "", "where sluiced listens")
	silent  = flag.String("silent", "", "a server that never answers")
	token   = flag.String("token", "", "the admin token")
	tlsCA   = flag.String("tls-ca", "", "certificate authority's file; without this flag, no TLS")
	only    = flag.String("only", "", "names of the tests to run; without this flag, all")

	channel *grpc.ClientConn
	limiter pb.RateLimiterClient
	input   = bufio.NewReader(os.Stdin)
)

// Makes the current test fail: panics with a text, which `passes` prints.
func fail(format string, arguments ...interface{}) { panic(fmt.Sprintf(format, arguments...)) }

func expect(holds bool, format string, arguments ...interface{}) {
	if !holds {
		fail(format, arguments...)
	}
}

func must(err error) {
	if err != nil {
		fail("%v", err)
	}
}

// Expects an error with `code`. Returns the error's message.
func expectCode(code codes.Code, err error) string {
	expect(status.Code(err) == code, "%v instead of %v", err, code)
	return status.Convert(err).Message()
}

func connect(to string, options ...grpc.DialOption) *grpc.ClientConn {
	security := grpc.WithInsecure()
	if *tlsCA != "" {
		authority, err := credentials.NewClientTLSFromFile(*tlsCA, "")
		must(err)
		security = grpc.WithTransportCredentials(authority)
	}
	made, err := grpc.Dial(to, append(options, security)...)
	must(err)
	return made
}

// A context that ends after `limit`. The cancel function is not needed, since the context and the
// program end soon.
func within(limit time.Duration) context.Context {
	ctx, _ := context.WithTimeout(context.Background(), limit)
	return ctx
}

func check(user, endpoint string) *pb.CheckLimitRequest {
	return &pb.CheckLimitRequest{
		Domain: "clients", Attributes: map[string]string{"endpoint": endpoint, "user": user}}
}

// `count` checks. The request_id of a check is `name` with a number, from 0 on.
func checks(count int, user, name string) []*pb.CheckLimitRequest {
	made := make([]*pb.CheckLimitRequest, count)
	for i := range made {
		made[i] = check(user, "/many")
		made[i].RequestId = fmt.Sprint(name, i)
	}
	return made
}

func largeBatch(user string) *pb.CheckLimitsRequest {
	made := checks(1000, user, "l")
	for _, request := range made {
		request.Attributes["note"] = strings.Repeat("n", 800)
	}
	return &pb.CheckLimitsRequest{Checks: made}
}

func one(request *pb.CheckLimitRequest) *pb.CheckLimitResponse {
	answer, err := limiter.CheckLimit(within(timeout), request)
	must(err)
	return answer
}

func decisions(answers []*pb.CheckLimitResponse) string {
	var words []string
	for _, answer := range answers {
		words = append(words, strings.TrimPrefix(answer.Decision.String(), "DECISION_"))
	}
	return strings.Join(words, " ")
}

// A CheckLimitStream. It is canceled when its context is canceled.
type stream struct {
	pb.RateLimiter_CheckLimitStreamClient
}

func openStream(ctx context.Context, on pb.RateLimiterClient, options ...grpc.CallOption) stream {
	calls, err := on.CheckLimitStream(ctx, options...)
	must(err)
	return stream{calls}
}

func (s stream) send(some []*pb.CheckLimitRequest) {
	must(s.Send(&pb.CheckLimitsRequest{Checks: some}))
}

func (s stream) results(count int) []*pb.CheckLimitResponse {
	var found []*pb.CheckLimitResponse
	for len(found) < count {
		frame, err := s.Recv()
		must(err)
		for _, result := range frame.Results {
			found = append(found, result.GetResponse())
		}
	}
	expect(len(found) == count, "%d results instead of %d", len(found), count)
	return found
}

// Expects that the stream ends with `code`, without another result.
func (s stream) expectEnd(code codes.Code) {
	frame, err := s.Recv()
	expect(err != nil, "a result instead of the end: %v", frame)
	if err == io.EOF {
		err = nil
	}
	expectCode(code, err)
}

// Sends a line to run.py, which stops the server. Returns when the server has been restarted.
func ask(line string) {
	fmt.Println(line)
	answer, err := input.ReadString('\n')
	must(err)
	expect(answer == "started\n", "run.py answers %q", answer)
}

func expectChannelWorks(user string) {
	answer, err := limiter.CheckLimit(within(timeout), check(user, "/many"), grpc.WaitForReady(true))
	must(err)
	expect(answer.Limits[0].GetRemaining() == many-1, "remaining after a restart: %v", answer)
}

// --- tests --------------------------------------------------------------------------------------

func checkUnary() {
	var answers []*pb.CheckLimitResponse
	for i := 0; i < 3; i++ {
		request := check("unary", "/pay")
		request.RequestId = fmt.Sprint("u", i)
		answers = append(answers, one(request))
		expect(answers[i].RequestId == request.RequestId, "request_id %q", answers[i].RequestId)
	}
	expect(decisions(answers) == "ALLOWED ALLOWED DENIED", "%s", decisions(answers))
	expect(answers[0].Limits[0].GetRemaining() == 1, "remaining: %v", answers[0])
	retry := answers[2].RetryAfter.AsDuration()
	expect(retry > 3500*time.Second && retry <= time.Hour, "retry_after %v", retry)
}

func checkBatch() {
	made := checks(4, "batch", "b")
	for _, request := range made {
		request.Attributes["endpoint"] = "/pay"
	}
	made[1].Domain = ""
	answer, err := limiter.CheckLimits(within(timeout), &pb.CheckLimitsRequest{Checks: made})
	must(err)
	results := answer.Results
	expect(len(results) == 4, "%d results", len(results))
	expect(codes.Code(results[1].GetError().GetCode()) == codes.InvalidArgument, "%v", results[1])
	var answers []*pb.CheckLimitResponse
	for _, i := range []int{0, 2, 3} {
		answers = append(answers, results[i].GetResponse())
		id := results[i].GetResponse().GetRequestId()
		expect(id == made[i].RequestId, "request_id %q at %d", id, i)
	}
	expect(decisions(answers) == "ALLOWED ALLOWED DENIED", "%s", decisions(answers))
}

func checkStream() {
	made := checks(100, "stream", "s")
	calls := openStream(within(timeout), limiter)
	calls.send(made[:20])
	answers := calls.results(20)
	for i := 20; i < 100; i += 20 {
		calls.send(made[i : i+20])
	}
	must(calls.CloseSend())
	answers = append(answers, calls.results(80)...)
	calls.expectEnd(codes.OK)
	ids, least := map[string]bool{}, uint64(many)
	for _, answer := range answers {
		ids[answer.RequestId] = true
		if left := answer.Limits[0].GetRemaining(); left < least {
			least = left
		}
	}
	expect(len(ids) == 100, "%d different request_ids", len(ids))
	expect(least == many-100, "remaining: %d", least)
}

func checkMetadata() {
	admin := pb.NewAdminClient(channel)
	_, err := admin.ListRules(within(timeout), &pb.ListRulesRequest{})
	expectCode(codes.Unauthenticated, err)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	ctx := metadata.AppendToOutgoingContext(within(timeout), "authorization", "Bearer "+*token,
		"x-long", strings.Repeat("v", 4096), "x-all-bytes-bin", string(all))
	answer, err := admin.ListRules(ctx, &pb.ListRulesRequest{})
	must(err)
	var names []string
	for _, rule := range answer.Rules {
		names = append(names, rule.Rule)
	}
	expect(strings.Join(names, " ") == "pay crowd many", "rules: %v", names)
}

func checkErrorMessage() {
	request := check("error", "/many")
	request.Attributes["größe"] = strings.Repeat("v", 8193)
	_, err := limiter.CheckLimit(within(timeout), request)
	text := expectCode(codes.InvalidArgument, err)
	expect(strings.Contains(text, "größe"), "message: %q", text)
}

func checkLargeBatch() {
	answer, err := limiter.CheckLimits(within(timeout), largeBatch("large"))
	must(err)
	expect(len(answer.Results) == 1000, "%d results", len(answer.Results))
	for i, result := range answer.Results {
		id := result.GetResponse().GetRequestId()
		expect(id == fmt.Sprint("l", i), "request_id %q at %d", id, i)
	}
	left := answer.Results[999].GetResponse().Limits[0].GetRemaining()
	expect(left == many-1000, "remaining: %d", left)
}

func checkTooLarge() {
	_, err := limiter.CheckLimit(within(timeout), check(strings.Repeat("u", 5*mib), "/many"))
	expectCode(codes.ResourceExhausted, err)
	one(check("after", "/many"))
}

func checkUnknownMethod() {
	for _, path := range []string{
		"/sluice.v1.RateLimiter/NoSuchMethod", "/no.such.Service/CheckLimit"} {
		err := channel.Invoke(within(timeout), path, check("unknown", "/many"),
			&pb.CheckLimitResponse{})
		expectCode(codes.Unimplemented, err)
	}
}

func checkGzip() {
	pack := grpc.UseCompressor(gzip.Name)
	answer, err := limiter.CheckLimits(within(timeout), largeBatch("gzip"), pack)
	must(err)
	expect(len(answer.Results) == 1000, "%d results", len(answer.Results))
	calls := openStream(within(timeout), limiter, pack)
	for i := 0; i < 2; i++ {
		calls.send(checks(100, "gzip", ""))
		calls.results(100)
	}
	must(calls.CloseSend())
	calls.expectEnd(codes.OK)
	_, err = limiter.CheckLimit(within(timeout), check(strings.Repeat("u", 5*mib), "/many"), pack)
	expectCode(codes.ResourceExhausted, err)
}

func checkDeadline() {
	one(check("deadline", "/many"))
	quiet := connect(*silent)
	defer quiet.Close()
	begin := time.Now()
	_, err := pb.NewRateLimiterClient(quiet).CheckLimit(
		within(500*time.Millisecond), check("deadline", "/many"))
	expectCode(codes.DeadlineExceeded, err)
	expect(time.Since(begin) < 5*time.Second, "late")
	calls := openStream(within(500*time.Millisecond), limiter)
	calls.send(checks(1, "deadline", ""))
	calls.results(1)
	calls.expectEnd(codes.DeadlineExceeded)
}

func checkCancel() {
	for i := 0; i < 10; i++ {
		ctx, cancel := context.WithCancel(within(timeout))
		calls := openStream(ctx, limiter)
		calls.send(checks(1, "cancel", ""))
		calls.results(1)
		calls.send(checks(1000, "cancel", ""))
		cancel()
		// Recv still returns the messages that arrived before the cancellation.
		var err error
		for err == nil {
			_, err = calls.Recv()
		}
		expectCode(codes.Canceled, err)
	}
	one(check("cancel", "/many"))
}

func checkConcurrent() {
	answers := make([]*pb.CheckLimitResponse, 64)
	errors := make([]error, len(answers))
	var all sync.WaitGroup
	for i := range answers {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			answers[i], errors[i] = limiter.CheckLimit(within(timeout), check("concurrent", "/crowd"))
		}(i)
	}
	all.Wait()
	for _, err := range errors {
		must(err)
	}
	words := decisions(answers)
	allowed, denied := strings.Count(words, "ALLOWED"), strings.Count(words, "DENIED")
	expect(allowed == 40 && denied == 24, "%d allowed, %d denied", allowed, denied)

	streams := make([]stream, 64)
	for i := range streams {
		streams[i] = openStream(within(timeout), limiter)
		streams[i].send(checks(1, "concurrent", ""))
	}
	for _, calls := range streams {
		calls.results(1)
	}
	for _, calls := range streams {
		must(calls.CloseSend())
		calls.expectEnd(codes.OK)
	}
}

func checkHealthCheck() {
	client := health.NewHealthClient(channel)
	for _, service := range []string{"", "sluice.v1.RateLimiter"} {
		answer, err := client.Check(within(timeout), &health.HealthCheckRequest{Service: service})
		must(err)
		expect(answer.Status == health.HealthCheckResponse_SERVING, "%q: %v", service, answer)
	}
	_, err := client.Check(within(timeout), &health.HealthCheckRequest{Service: "no.such"})
	expectCode(codes.NotFound, err)
}

func expectHealth(watch health.Health_WatchClient, wanted health.HealthCheckResponse_ServingStatus) {
	answer, err := watch.Recv()
	must(err)
	expect(answer.Status == wanted, "%v instead of %v", answer.Status, wanted)
}

func checkHealthWatch() {
	for service, wanted := range map[string]health.HealthCheckResponse_ServingStatus{
		"":        health.HealthCheckResponse_SERVING,
		"no.such": health.HealthCheckResponse_SERVICE_UNKNOWN} {
		ctx, cancel := context.WithCancel(within(timeout))
		watch, err := health.NewHealthClient(channel).Watch(
			ctx, &health.HealthCheckRequest{Service: service})
		must(err)
		expectHealth(watch, wanted)
		cancel()
		_, err = watch.Recv()
		expectCode(codes.Canceled, err)
	}
}

func checkReflection() {
	asked, err := reflection.NewServerReflectionClient(channel).ServerReflectionInfo(within(timeout))
	must(err)
	ask := func(request *reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse {
		must(asked.Send(request))
		answer, err := asked.Recv()
		must(err)
		return answer
	}
	askSymbol := func(symbol string) *reflection.ServerReflectionResponse {
		return ask(&reflection.ServerReflectionRequest{
			MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{
				FileContainingSymbol: symbol}})
	}
	names := map[string]bool{}
	for _, service := range ask(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_ListServices{ListServices: "*"},
	}).GetListServicesResponse().GetService() {
		names[service.Name] = true
	}
	for _, name := range []string{
		"sluice.v1.RateLimiter", "sluice.v1.Admin", "grpc.health.v1.Health"} {
		expect(names[name], "%s is not among %v", name, names)
	}
	files := map[string]bool{}
	answer := askSymbol("sluice.v1.RateLimiter").GetFileDescriptorResponse()
	for _, bytes := range answer.GetFileDescriptorProto() {
		var file descriptorpb.FileDescriptorProto
		must(proto.Unmarshal(bytes, &file))
		files[file.GetName()] = true
	}
	expect(files["sluice/v1/rate_limiter.proto"], "files: %v", files)
	code := codes.Code(askSymbol("no.such.Symbol").GetErrorResponse().GetErrorCode())
	expect(code == codes.NotFound, "code of an unknown symbol: %v", code)
	must(asked.CloseSend())
}

func checkKeepalive() {
	options := grpc.WithKeepaliveParams(keepalive.ClientParameters{
		Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true})
	idle, busy := connect(*address, options), connect(*address, options)
	defer idle.Close()
	defer busy.Close()
	_, err := pb.NewRateLimiterClient(idle).CheckLimit(within(timeout), check("keepalive", "/many"))
	must(err)
	calls := openStream(within(time.Minute), pb.NewRateLimiterClient(busy))
	calls.send(checks(1, "keepalive", ""))
	calls.results(1)
	expect(idle.GetState() == connectivity.Ready, "state %v", idle.GetState())
	leftReady := idle.WaitForStateChange(within(35*time.Second), connectivity.Ready)
	expect(!leftReady, "the idle connection was lost")
	calls.send(checks(1, "keepalive", ""))
	must(calls.CloseSend())
	calls.results(1)
	calls.expectEnd(codes.OK)
}

func checkReconnect() {
	calls := openStream(within(timeout), limiter)
	calls.send(checks(1, "reconnect", ""))
	calls.results(1)
	ask("@kill")
	calls.expectEnd(codes.Unavailable)
	expectChannelWorks("reconnect")
}

func checkGracefulStop() {
	ctx, cancel := context.WithCancel(within(timeout))
	defer cancel()
	watch, err := health.NewHealthClient(channel).Watch(ctx, &health.HealthCheckRequest{})
	must(err)
	expectHealth(watch, health.HealthCheckResponse_SERVING)
	calls := openStream(within(timeout), limiter)
	calls.send(checks(1, "graceful", ""))
	calls.results(1)
	ask("@stop")
	expectHealth(watch, health.HealthCheckResponse_NOT_SERVING)
	calls.expectEnd(codes.Unavailable)
	expectChannelWorks("graceful")
}

var allChecks = []struct {
	name string
	run  func()
}{
	{"unary", checkUnary}, {"batch", checkBatch}, {"stream", checkStream},
	{"metadata", checkMetadata}, {"error_message", checkErrorMessage},
	{"large_batch", checkLargeBatch}, {"too_large", checkTooLarge},
	{"unknown_method", checkUnknownMethod}, {"gzip", checkGzip}, {"deadline", checkDeadline},
	{"cancel", checkCancel}, {"concurrent", checkConcurrent}, {"health_check", checkHealthCheck},
	{"health_watch", checkHealthWatch}, {"reflection", checkReflection},
	{"keepalive", checkKeepalive}, {"reconnect", checkReconnect},
	{"graceful_stop", checkGracefulStop},
}

func passes(name string, run func()) (passed bool) {
	begin := time.Now()
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Printf("FAIL %s: %v\n", name, problem)
			passed = false
		}
	}()
	run()
	fmt.Printf("ok   %s (%d ms)\n", name, time.Since(begin).Milliseconds())
	return true
}

func main() {
	flag.Parse()
	channel = connect(*address)
	limiter = pb.NewRateLimiterClient(channel)
	failures, runs := 0, 0
	for _, each := range allChecks {
		if *only != "" && !strings.Contains(","+*only+",", ","+each.name+",") {
			continue
		}
		runs++
		if !passes(each.name, each.run) {
			failures++
		}
	}
	channel.Close()
	if failures > 0 || runs == 0 {
		os.Exit(1)
	}
}
