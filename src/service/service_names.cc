#include "service/service_names.h"

#include <algorithm>

namespace sluice {

std::vector<std::string> ServiceNames(const rpc::Methods& methods) {
  std::vector<std::string> names;
  for (const rpc::Method& method : methods) {
    std::string name = method.path.substr(1, method.path.rfind('/') - 1);
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  }
  return names;
}

}  // namespace sluice
