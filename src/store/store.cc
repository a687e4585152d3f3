#include "store/store.h"

namespace sluice {

std::string_view ToString(StoreFailure failure) {
  switch (failure) {
    case StoreFailure::kTimeout:
      return "timeout";
    case StoreFailure::kUnreachable:
      return "unreachable";
    case StoreFailure::kOverloaded:
      return "overloaded";
    case StoreFailure::kRejected:
      return "rejected";
  }
  return "";
}

}  // namespace sluice
