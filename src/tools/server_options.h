// The flags of all commands that call a server, and the output if no server answers.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <CLI/App.hpp>

#include "client/client.h"

namespace sluice::tools {

struct ServerOptions {
  std::string address = "127.0.0.1:8081";
  Duration timeout = std::chrono::seconds(1);
  bool tls = false;
  std::string tls_ca, tls_certificate, tls_key;  // files; empty: none
  std::string tls_server_name;                   // empty: the address' host
  std::string token_file;

  void AddTo(CLI::App& app);

  // Reads the token. The error names the invalid file or variable.
  Result<Target> ToTarget() const;

 private:
  Result<std::string> Token() const;
};

// A client of `target`. If `target` is an error, returns that error.
Result<std::unique_ptr<Client>> Connect(Result<Target> target);

// Prints an error that did not come from a call to a server, and returns the exit status.
int Fail(const Error& error);

// Prints the error of a call to `address` and returns the exit status. If `json` is true, prints
// the error as JSON, too. If `answered` is false, also says how to start a server.
int FailCall(const Address& address, bool answered, const Error& error, bool json);

// A flag's check: returns why `text` is not an address, or an empty string if it is one.
std::string IsAddress(const std::string& text);

// A flag's check that a number is in a range. Unlike CLI::Range, it refuses "nan".
CLI::Validator NumberWithin(double least, double most);

// Adds a flag for an address that Address::Parse accepts.
CLI::Option* AddAddress(CLI::App& app, const std::string& flag, const std::string& description,
                        std::string& address);

// Parses the value of `flag`. Throws CLI::ValidationError if `text` is not a duration.
Duration DurationOf(const std::string& flag, const std::string& text);

// Adds a flag for a duration. `place`: a Duration or a std::optional<Duration>.
template <typename Place>
CLI::Option* AddDuration(CLI::App& app, const std::string& flag, const std::string& description,
                         Place& place) {
  const auto set = [&place, flag](const std::string& text) { place = DurationOf(flag, text); };
  return app.add_option_function<std::string>(flag, set, description)->type_name("DURATION");
}

// Adds a flag that accepts one of `words` and sets `place` to the value of that word. If `place`
// has the value of a word before parsing, the help shows that word as the default.
template <typename T>
CLI::Option* AddWord(CLI::App& app, const std::string& flag, const std::string& description,
                     T& place, const std::map<std::string, T>& words) {
  const auto set = [&place, words](const std::string& word) { place = words.at(word); };
  CLI::Option* const option = app.add_option_function<std::string>(flag, set, description);
  for (const auto& [word, value] : words) {
    if (value == place) option->default_str(word);
  }
  return option->check(CLI::IsMember(words));
}

}  // namespace sluice::tools
