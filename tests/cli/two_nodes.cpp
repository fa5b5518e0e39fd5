#include "cli/two_nodes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

constexpr auto kNodesLimit = std::chrono::seconds(120);

std::string name_of(int host) { return fmt::format("ls{}{}", ::getpid(), host == 0 ? 'a' : 'b'); }

bool ip(Words words) {
  words.insert(words.begin(), "ip");
  try {
    return run_program(std::move(words)).status.ok();
  } catch (const std::exception&) {
    return false;
  }
}

bool join_two_hosts() {
  bool made = ip({"netns", "add", name_of(0)}) && ip({"netns", "add", name_of(1)}) &&
              ip({"link", "add", name_of(0), "type", "veth", "peer", "name", name_of(1)});
  for (int host = 0; made && host < 2; ++host) {
    const auto name = name_of(host);
    made = ip({"link", "set", name, "netns", name}) &&
           ip({"-n", name, "addr", "add", TwoHosts::address(host) + "/24", "dev", name}) &&
           ip({"-n", name, "link", "set", name, "up"}) && ip({"-n", name, "link", "set", "lo", "up"});
  }
  return made;
}

}  // namespace

Environment environment_of_scripts() {
  Environment environment = plain_environment();
  const auto folder = std::filesystem::path(LOCKSTEP_BINARY).parent_path().string();
  environment.insert_or_assign("PATH", folder + ":" + environment["PATH"]);
  environment.insert_or_assign("LOCKSTEP_START_TIMEOUT_S", std::string("60"));
  return environment;
}

Captured run_in(const std::filesystem::path& folder, Words words, const Environment& more) {
  ChildOptions child;
  child.arguments = std::move(words);
  child.environment = environment_of_scripts();
  for (const auto& [name, value] : more) child.environment->insert_or_assign(name, value);
  child.working_directory = folder;
  return run_and_capture(child, kNodesLimit);
}

std::array<Captured, 2> on_two_nodes(const std::filesystem::path& folder, const Words& words,
                                     const std::array<Environment, 2>& variables) {
  auto second = std::async(std::launch::async, [&] { return run_in(folder, words, variables[1]); });
  Captured first = run_in(folder, words, variables[0]);
  return {std::move(first), second.get()};
}

std::array<Environment, 2> loopback_nodes() {
  return {Environment{{"LOCKSTEP_NODE_ADDR", "127.0.0.2"}, {"LOCKSTEP_HOST_ID", "node 0"}},
          Environment{{"LOCKSTEP_NODE_ADDR", "127.0.0.3"}, {"LOCKSTEP_HOST_ID", "node 1"}}};
}

void expect_result(const Workbench& bench, int ranks) {
  const auto result = nlohmann::json::parse(read_file(bench.work_dir() / "result.json"));
  EXPECT_EQ(result["world_size"], ranks);
  EXPECT_GE(result["steps"], 1);
}

TwoHosts::TwoHosts() : made_(join_two_hosts()) {}

TwoHosts::~TwoHosts() {
  for (int host = 0; host < 2; ++host) ip({"netns", "del", name_of(host)});
}

std::string TwoHosts::address(int host) { return fmt::format("10.77.0.{}", host + 1); }

std::string TwoHosts::interface(int host) { return name_of(host); }

Words TwoHosts::on(int host, Words words) {
  words.insert(words.begin(), {"ip", "netns", "exec", name_of(host), "env", "LOCKSTEP_STORE_SECRET=of two hosts"});
  return words;
}

bool TwoHosts::plug_in() { return ip({"-n", name_of(1), "link", "set", name_of(1), "up"}); }

bool TwoHosts::unplug() { return ip({"-n", name_of(1), "link", "set", name_of(1), "down"}); }

}  // namespace lockstep::test
