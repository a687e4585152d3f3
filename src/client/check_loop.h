// Many checks under way at once, on one connection and one thread that hears their answers. For
// load: a check costs no thread, and the one who starts it never waits for it.
//
// Start is thread-safe. Answers come on the loop's thread, in the order of their arrival.
#pragma once

#include <functional>

#include <grpcpp/completion_queue.h>

#include "base/thread.h"
#include "client/client.h"

namespace sluice {

class CheckLoop {
 public:
  using OnAnswer = std::function<void(const Result<v1::CheckLimitResponse>& answer)>;

  // `client` must outlive the loop.
  explicit CheckLoop(Client& client);

  // Waits for the answers of all checks under way. REQUIRES: nobody calls Start any more.
  ~CheckLoop();

  // Sends `request`; `on_answer` is called exactly once, at the latest after `timeout`, and must
  // not block.
  void Start(const v1::CheckLimitRequest& request, Duration timeout, OnAnswer on_answer);

 private:
  struct Call;
  void Run();

  Client& client_;
  grpc::CompletionQueue queue_;
  Thread thread_;
};

}  // namespace sluice
