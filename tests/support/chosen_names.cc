// A library to preload: a name service that a test controls. The environment variable CHOSEN_NAMES
// is the path of a file. Each line of the file has an address of the name "redis.test" and the
// milliseconds that its resolution takes. If the file is empty, the name does not exist. The system
// resolves all other names.
#include <dlfcn.h>
#include <netdb.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** list) {
  static const auto system =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (node == nullptr || std::string_view(node) != "redis.test") {
    return system(node, service, hints, list);
  }
  std::ifstream file(std::getenv("CHOSEN_NAMES"));
  std::string address;
  int milliseconds = 0, error = EAI_NONAME;
  *list = nullptr;
  for (addrinfo** end = list; file >> address >> milliseconds;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    error = system(address.c_str(), service, hints, end);
    if (error != 0) break;
    while (*end != nullptr) end = &(*end)->ai_next;
  }
  return error;
}
