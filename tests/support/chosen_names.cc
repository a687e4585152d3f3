// A library to preload: a name service that a test rules. The file CHOSEN_NAMES holds, for the name
// "redis.test", an address and how many milliseconds it takes to find it; an empty file, that there
// is no such name. Other names are the system's.
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
  int milliseconds = 0;
  if (!(file >> address >> milliseconds)) return EAI_NONAME;
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  return system(address.c_str(), service, hints, list);
}
