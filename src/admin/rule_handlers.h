// ListRules and ReloadRules. Both take long, so they run on the worker's thread and post their
// answer to the loop.
//
// Loop thread only. The worker must be stopped before the handlers are destroyed.
#pragma once

#include <functional>
#include <string>

#include <sluice/v1/admin.pb.h>

#include "admin/admin_handler.h"
#include "admin/rule_source.h"
#include "base/worker.h"
#include "limiter/limiter.h"
#include "net/loop.h"

namespace sluice {

template <typename Request>
class WorkerHandler : public AdminHandler<Request> {
 public:
  // All must outlive the handler.
  WorkerHandler(const AdminAccess& access, net::Loop& loop, Worker& worker)
      : AdminHandler<Request>(access), loop_(loop), worker_(worker) {}

 protected:
  // Answers with the message that `work` returns on the worker's thread.
  void FinishFromWorker(std::function<std::string()> work) {
    const bool posted = worker_.Post([this, work = std::move(work)] {
      loop_.Post([this, response = work()] { this->Finish(response); });
    });
    if (!posted) {
      this->Fail({ErrorCode::kUnavailable, "too many admin calls are in progress; try again"});
    }
  }

 private:
  net::Loop& loop_;
  Worker& worker_;
};

class ListRulesHandler final : public WorkerHandler<v1::ListRulesRequest> {
 public:
  ListRulesHandler(const AdminAccess& access, net::Loop& loop, Worker& worker, Limiter& limiter)
      : WorkerHandler(access, loop, worker), limiter_(limiter) {}

 private:
  void Answer(const rpc::Call& call) override;

  Limiter& limiter_;
};

class ReloadRulesHandler final : public WorkerHandler<v1::ReloadRulesRequest> {
 public:
  // Without `rules`, ReloadRules is UNIMPLEMENTED.
  ReloadRulesHandler(const AdminAccess& access, net::Loop& loop, Worker& worker, RuleSource* rules)
      : WorkerHandler(access, loop, worker), rules_(rules) {}

 private:
  void Answer(const rpc::Call& call) override;

  RuleSource* const rules_;
};

}  // namespace sluice
