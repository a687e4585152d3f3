#include "app/credentials.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace sluice {

Result<void> Credentials::SecretFile::Load() {
  if (path.empty()) return {};
  auto read = ReadSecretFile(path);
  if (!read) return InvalidArgument(fmt::format("{}: {}", setting, read.error().message));
  secret.Set(std::move(*read));
  return {};
}

void Credentials::SecretFile::Reload() {
  if (path.empty()) return;
  auto read = ReadSecretFile(path);
  const std::string cause = read ? "" : read.error().message;
  const bool is_news = std::exchange(refused, cause) != cause;
  if (!read) {
    if (is_news) spdlog::warn("{}: {}; the previous secret stays in use", setting, cause);
  } else if (secret.Set(std::move(*read))) {
    spdlog::info("{}: the secret has changed", setting);
  }
}

Result<std::unique_ptr<Credentials>> Credentials::Load(const Settings& settings,
                                                       MetricsRegistry& metrics) {
  std::unique_ptr<Credentials> made(new Credentials);
  if (auto loaded = made->LoadTls(settings); !loaded) return loaded.error();
  made->admin_token_.secret.Set(settings.admin_token);
  made->admin_token_.path = settings.admin_token_file;
  made->redis_password_.path = settings.redis_password_file;
  for (SecretFile* const file : {&made->admin_token_, &made->redis_password_}) {
    if (auto loaded = file->Load(); !loaded) return loaded.error();
  }
  if (!settings.callers.empty()) {
    auto callers = CallerAccess::Load(settings.callers, metrics);
    if (!callers) return callers.error();
    made->callers_ = std::move(*callers);
  }
  metrics.ReadFrom("sluice_tls_certificate_expiry_timestamp_seconds",
                   "The earliest expiry of the certificates in use.",
                   [it = made.get()] { return it->Expiry(); });
  return made;
}

Result<void> Credentials::LoadTls(const Settings& settings) {
  if (!settings.tls_certificate.empty()) {
    auto tls = net::TlsServerContext::Load({.paths = {.certificate_chain = settings.tls_certificate,
                                                      .private_key = settings.tls_key,
                                                      .ca = settings.tls_client_ca}});
    if (!tls) return InvalidArgument("tls: " + tls.error().message);
    server_tls_ = std::move(*tls);
  }
  if (settings.uses_redis_tls()) {
    auto tls = net::TlsClientContext::Load({.certificate_chain = settings.redis_tls_certificate,
                                            .private_key = settings.redis_tls_key,
                                            .ca = settings.redis_tls_ca});
    if (!tls) return InvalidArgument("redis.tls: " + tls.error().message);
    redis_tls_ = std::move(*tls);
  }
  return {};
}

double Credentials::Expiry() const {
  double first = std::numeric_limits<double>::infinity();
  if (server_tls_) first = std::min(first, server_tls_->Expiry());
  if (redis_tls_) first = std::min(first, redis_tls_->Expiry());
  return first;
}

void Credentials::Reload() {
  if (server_tls_) server_tls_->Reload();
  if (redis_tls_) redis_tls_->Reload();
  if (callers_) callers_->ReloadTokens();
  admin_token_.Reload();
  redis_password_.Reload();
}

}  // namespace sluice
