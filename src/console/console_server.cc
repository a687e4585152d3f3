#include "console/console_server.h"

#include <utility>

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/text.h"
#include "client/client.h"
#include "client/message_json.h"
#include "console/fleet_state.h"
#include "console/page_file.h"

namespace sluice {
namespace {

constexpr char kHost[] = "127.0.0.1";

// No inline script or style, nothing from other origins, and no frames.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

HttpResponse Response(int status, std::string_view content_type, std::string body) {
  return {.status = status,
          .content_type = std::string(content_type),
          .body = std::move(body),
          .headers = {{"Content-Security-Policy", kPolicy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Resource-Policy", "same-origin"}}};
}

HttpResponse JsonResponse(std::string body) {
  return Response(200, "application/json", std::move(body));
}

HttpResponse Failure(const Error& error) {
  const int status = error.code == ErrorCode::kInvalidArgument ? 400 : 502;
  return Response(status, "application/json", ErrorJson(error));
}

HttpResponse Refusal(int status, std::string body) {
  return Response(status, "text/plain; charset=utf-8", std::move(body));
}

HttpHandler FileHandler(const PageFile& file) {
  return AnsweredBy([file] { return Response(200, file.content_type, std::string(file.text)); });
}

}  // namespace

Result<std::unique_ptr<ConsoleServer>> ConsoleServer::Start(const FleetWatch& watch,
                                                            Options options) {
  std::unique_ptr<ConsoleServer> console(new ConsoleServer(watch, std::move(options)));
  auto http = HttpServer::Start(console->io_, {.host = kHost, .port = console->options_.port},
                                console->Routes());
  if (!http) return http.error();
  console->http_ = std::move(*http);
  console->port_ = console->http_->address().port;
  return console;
}

ConsoleServer::ConsoleServer(const FleetWatch& watch, Options options)
    : watch_(watch),
      options_(std::move(options)),
      token_(fmt::format("{:02x}", fmt::join(RandomBytes(), ""))) {
  io_.Start();
}

ConsoleServer::~ConsoleServer() {
  worker_.Stop();
  http_.reset();
  io_.Stop();
}

std::string ConsoleServer::url() const {
  return fmt::format("http://{}/#token={}", http_->address().ToString(), token_);
}

std::vector<HttpRoute> ConsoleServer::Routes() {
  std::vector<HttpRoute> routes;
  const auto add = [&](std::string_view path, HttpHandler handler, const char* method) {
    routes.push_back({.path = std::string(path),
                      .handler = Guarded(std::move(handler), path.starts_with("/api/")),
                      .methods = {method},
                      .own_site_only = true});
  };
  for (const PageFile& file : PageFiles()) {
    add(file.path == "/index.html" ? "/" : file.path, FileHandler(file), "GET");
  }
  add("/api/state",
      AnsweredBy([this] { return JsonResponse(JsonText(ToJson(Merge(watch_.Now())))); }), "GET");
  add("/api/rules",
      CallOf<v1::ListRulesRequest, v1::ListRulesResponse>("/sluice.v1.Admin/ListRules"), "GET");
  add("/api/explain",
      CallOf<v1::ExplainRequest, v1::ExplainResponse>(
          "/sluice.v1.Admin/Explain",
          [this](const auto& request, const auto& answer) {
            return fmt::format(R"({{"text":{},"answer":{}}})",
                               JsonString(options_.explain_text(request, answer)),
                               MessageJson(answer));
          }),
      "POST");
  add("/api/reset",
      CallOf<v1::ResetLimitRequest, v1::ResetLimitResponse>("/sluice.v1.Admin/ResetLimit"), "POST");
  return routes;
}

// A browser sends the host name and the port of the URL in `Host`.
HttpHandler ConsoleServer::Guarded(HttpHandler handler, bool needs_token) const {
  return [this, handler = std::move(handler), needs_token](const HttpRequest& request,
                                                           HttpResponder respond) {
    const auto host = OnlyHeader(request.headers, "Host");
    const std::uint16_t port = port_;
    if (host != fmt::format("{}:{}", kHost, port) && host != fmt::format("localhost:{}", port)) {
      return respond(Refusal(403, "this host name is not allowed; use 127.0.0.1 or localhost\n"));
    }
    const auto token = BearerToken(OnlyHeader(request.headers, "Authorization"));
    const bool has_token = token && DigestOfSecret(*token) == DigestOfSecret(token_);
    if (needs_token && !has_token) return respond(Refusal(401, "the token is missing or wrong\n"));
    handler(request, std::move(respond));
  };
}

Result<Target> ConsoleServer::ServerOf(const HttpRequest& request) const {
  constexpr std::string_view kName = "server=";
  const std::string_view query = request.query;
  if (query.starts_with(kName)) {
    const auto index = ParseNumber<std::size_t>(query.substr(kName.size()));
    if (index && *index < watch_.servers().size()) return watch_.servers()[*index].target;
  }
  return InvalidArgument(fmt::format("server: must be a number below {}", watch_.servers().size()));
}

template <typename Request, typename Response>
HttpHandler ConsoleServer::CallOf(
    const char* path, std::function<std::string(const Request&, const Response&)> render) {
  return [this, path, render = std::move(render)](const HttpRequest& http,
                                                  const HttpResponder& respond) {
    const auto server = ServerOf(http);
    if (!server) return respond(Failure(server.error()));
    Request request;
    const auto parsed =
        google::protobuf::util::JsonStringToMessage(http.body.empty() ? "{}" : http.body, &request);
    if (!parsed.ok()) return respond(Failure(InvalidArgument(parsed.ToString())));
    const bool posted = worker_.Post([this, target = *server, path, request, render, respond] {
      const auto client = Client::Create(target);
      if (!client) return respond(Failure(client.error()));
      const auto answer = (*client)->template Call<Response>(path, request, options_.timeout);
      if (!answer) return respond(Failure(answer.error()));
      respond(JsonResponse(render ? render(request, *answer) : MessageJson(*answer)));
    });
    if (!posted) respond(Busy());
  };
}

}  // namespace sluice
