// `sluice top`: shows what servers decide, each second.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "client/message_json.h"
#include "console/fleet_state.h"
#include "tools/command.h"
#include "tools/fleet_options.h"
#include "tools/signal_queue.h"
#include "tools/top_screen.h"

namespace sluice::tools {
namespace {

// How often the command looks for new frames.
constexpr std::chrono::milliseconds kPoll(50);

// If no new frame of a server arrives for this long, its last frame is shown again.
constexpr std::chrono::milliseconds kLongestWait(1500);

struct TopOptions {
  FleetOptions fleet;
  std::uint64_t count = 0;  // 0: no end
  std::string filter;
};

// Paces the output: a step is complete when each server that answers has sent a new frame.
class Steps {
 public:
  explicit Steps(const FleetWatch& watch) : watch_(watch) {}

  // The next step, or nullopt if it is not complete.
  std::optional<FleetState> Next() {
    const FleetWatch::States states = watch_.Now();
    bool complete = true, any = false;
    shown_.resize(states.size());
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (!states[i].last) continue;
      const bool fresh = states[i].frames > shown_[i];
      complete &= fresh;
      any |= fresh;
    }
    // While a server does not answer, a step takes kLongestWait.
    if (!(complete && any) && SteadyNow() - last_ < kLongestWait) return std::nullopt;
    for (std::size_t i = 0; i < states.size(); ++i) shown_[i] = states[i].frames;
    last_ = SteadyNow();
    return Merge(states);
  }

 private:
  const FleetWatch& watch_;
  std::vector<std::uint64_t> shown_;  // of each server: frames received until the last step
  SteadyTime last_ = SteadyNow();
};

// Prints each step as lines or as JSON, until a signal or --count ends the command.
int Print(const TopOptions& options, Steps& steps, SignalQueue& signals) {
  const TopView view{.filter = options.filter};
  for (std::uint64_t printed = 0; options.count == 0 || printed < options.count;) {
    const auto fleet = steps.Next();
    if (!fleet) {
      if (signals.WaitUntil(SteadyNow() + kPoll)) break;
      continue;
    }
    const auto now = std::chrono::floor<std::chrono::seconds>(Clock::System().Now());
    if (options.fleet.admin.json) {
      fmt::print("{}\n", JsonText(ToJson(*fleet)));
    } else {
      fmt::print("{}", TopLines(*fleet, view, fmt::format("{:%FT%TZ}", fmt::gmtime(now))));
    }
    if (std::fflush(stdout) != 0) return kExitError;
    ++printed;
  }
  return kExitDone;
}

// Sets up the terminal for the screen: each key arrives at once and is not echoed. The destructor
// restores the terminal.
class Terminal {
 public:
  Terminal() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // a stopped program could not restore the terminal
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    fmt::print("\x1b[?1049h\x1b[?25l");
  }
  ~Terminal() {
    std::fputs("\x1b[?25h\x1b[?1049l", stdout);
    std::fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  static void Show(const FleetState& fleet, const TopView& view) {
    winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    winsize actual{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &actual) == 0 && actual.ws_row > 0) size = actual;
    std::string screen = TopScreen(fleet, view, size.ws_row, size.ws_col);
    for (std::size_t at = 0; (at = screen.find('\n', at)) != std::string::npos; at += 5) {
      screen.replace(at, 1, "\x1b[K\r\n");  // clears the rest of the line
    }
    fmt::print("\x1b[H{}\x1b[J", screen);
    std::fflush(stdout);
  }

 private:
  termios before_{};
};

int ShowScreen(const TopOptions& options, Steps& steps, SignalQueue& signals) {
  const Terminal terminal;
  TopView view{.filter = options.filter};
  FleetState fleet;
  while (!view.ended && !signals.Next()) {
    pollfd events[] = {{STDIN_FILENO, POLLIN, 0}, {signals.fd(), POLLIN, 0}};
    poll(events, 2, static_cast<int>(kPoll.count()));
    bool changed = false;
    if (events[0].revents != 0) {
      char keys[64];
      const ssize_t size = read(STDIN_FILENO, keys, sizeof keys);
      if (size <= 0) break;  // the terminal is gone
      for (ssize_t i = 0; i < size; ++i) view.Press(keys[i]);
      changed = true;
    }
    if (auto next = view.stopped ? std::nullopt : steps.Next()) {
      fleet = std::move(*next);
      changed = true;
    }
    if (changed) Terminal::Show(fleet, view);
  }
  return kExitDone;
}

int RunTop(const TopOptions& options) {
  SignalQueue signals;  // before any thread
  const auto watch = options.fleet.Watch();
  if (!watch) return kExitError;
  Steps steps(*watch);
  const bool screen = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 &&
                      !options.fleet.admin.json && options.count == 0;
  return screen ? ShowScreen(options, steps, signals) : Print(options, steps, signals);
}

void DeclareTop(CLI::App& app, TopOptions& options) {
  options.fleet.AddTo(app);
  app.get_option("--json")->description("Print one line with a JSON object each second");
  app.add_option("--count", options.count, "Print this many times, as lines, and end")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("TIMES");
  app.add_option("--filter", options.filter,
                 "Show only rules (and, on the screen, keys) that contain this text")
      ->excludes(app.get_option("--json"))
      ->type_name("TEXT");
  app.footer(
      "On the keyboard, d, c and n sort by denied, checks and name; k switches between the keys\n"
      "most denied and those most used; / filters; p pauses; q quits.\n"
      "Without a terminal, the command prints lines. Exit status: 0 ended, 2 error.\n"
      "Example: sluice top --addr 10.0.0.1:8081 --addr 10.0.0.2:8081");
}

}  // namespace

const Command kTop = {"top", "Show what servers decide each second, and the keys most denied",
                      Declare<TopOptions, DeclareTop, RunTop>};

}  // namespace sluice::tools
