#include "store/redis/reply_reader.h"

#include <hiredis/hiredis.h>

#include <fmt/format.h>

namespace sluice::redis {
namespace {

using Reader = std::unique_ptr<redisReader, ReplyReader::Deleter>;

// hiredis' own functions, except that an array is refused if it has more elements than `*privdata`,
// the number of elements that the reply may still have.
redisReplyObjectFunctions& Functions() {
  static const redisReplyObjectFunctions own = *Reader(redisReaderCreate())->fn;
  static redisReplyObjectFunctions bounded = [] {
    redisReplyObjectFunctions functions = own;
    functions.createArray = [](const redisReadTask* task, auto elements) -> void* {
      auto& left = *static_cast<std::size_t*>(task->privdata);
      if (std::cmp_greater(elements, left)) return nullptr;
      left -= static_cast<std::size_t>(elements);
      return own.createArray(task, elements);
    };
    return functions;
  }();
  return bounded;
}

Error Unusable(std::string_view why) {
  return {ErrorCode::kInternal, fmt::format("protocol error: {}", why)};
}

}  // namespace

void ReplyReader::Deleter::operator()(redisReader* reader) const { redisReaderFree(reader); }
void ReplyReader::Deleter::operator()(redisReply* reply) const { freeReplyObject(reply); }

ReplyReader::ReplyReader() : reader_(redisReaderCreateWithFunctions(&Functions())) {
  reader_->privdata = &elements_;
}

void ReplyReader::Feed(std::string_view bytes) {
  redisReaderFeed(reader_.get(), bytes.data(), bytes.size());
  bytes_ += bytes.size();
}

Result<ReplyReader::Reply> ReplyReader::Next(const ReplySize& most) {
  const bool is_new = reader_->ridx < 0;
  if (is_new) elements_ = most.elements;
  void* reply = nullptr;
  if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) {
    if (reader_->err == REDIS_ERR_OOM) return Unusable("a reply with more elements than expected");
    return Unusable(fmt::format("not a reply of Redis: {}", reader_->errstr));
  }
  if (reply != nullptr) {
    bytes_ = reader_->len - reader_->pos;
  } else if (bytes_ > most.bytes) {
    return Unusable("a reply longer than expected");
  }
  return Reply(static_cast<redisReply*>(reply));
}

}  // namespace sluice::redis
