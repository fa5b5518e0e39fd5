// Flags of `lockstep run` about the live page of the job: its address, strictly read, and what it may do.
#include <lockstep/base/text.h>
#include <lockstep/cli/node_flags.h>
#include <lockstep/cli/run_arguments.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace lockstep::cli {
namespace {

/// The host of "host:80", "[::1]:80" or "80"; nullopt for other texts.
std::optional<cluster::LivePageOptions> parse_page_address(const std::string& text) {
  cluster::LivePageOptions page;
  const auto colon = text.rfind(':');
  const auto port = parse_integer(std::string_view(text).substr(colon == std::string::npos ? 0 : colon + 1));
  if (!port || *port < 0 || *port > std::numeric_limits<std::uint16_t>::max()) return std::nullopt;
  page.port = static_cast<std::uint16_t>(*port);
  if (colon == std::string::npos) return page;
  page.host = text.substr(0, colon);
  const bool bracketed = page.host.size() > 2 && page.host.front() == '[' && page.host.back() == ']';
  if (bracketed) page.host = page.host.substr(1, page.host.size() - 2);
  const bool is_one_word = page.host.find_first_of(bracketed ? "[] /" : "[]: /") == std::string::npos;
  return page.host.empty() || !is_one_word ? std::nullopt : std::optional(page);
}

}  // namespace

void add_page_flags(CLI::App& command, PageFlags& flags) {
  constexpr const char* kGroup = "Live page";
  command
      .add_option("--dashboard", flags.address,
                  "Serve a page that shows the job while it runs, with its address on stderr: at this port of this "
                  "machine alone, or of HOST, an address that other machines reach; 0, or no value: a free port. Only "
                  "whoever has the whole address sees the job")
      ->type_name("[[HOST:]PORT]")
      ->expected(0, 1)
      ->group(kGroup);
  command.add_flag("--dashboard-kill", flags.can_kill, "The page may kill ranks")->group(kGroup);
}

std::optional<cluster::LivePageOptions> page_of(const PageFlags& flags) {
  if (flags.address.empty()) {
    if (flags.can_kill) refuse("--dashboard-kill is about the page of --dashboard, which is not given");
    return std::nullopt;
  }
  auto page = parse_page_address(flags.address);
  if (!page) {
    refuse(
        "--dashboard '{}' must be a port from 0 to 65535, or an address of this machine and a port, as in "
        "10.0.0.1:8080 or [::1]:8080",
        cut_text(flags.address));
  }
  page->can_kill = flags.can_kill;
  return page;
}

}  // namespace lockstep::cli
