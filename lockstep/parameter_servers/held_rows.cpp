// The plan of a recovery: which servers undo a step, which get rows from a neighbour's copy, and what prevents it.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/parameter_servers/held_rows.h>

namespace lockstep::parameter_servers {

int part_of(int server, bool copy, int servers) { return copy ? (server + servers - 1) % servers : server; }

void take_back_step(HeldRows& rows) {
  for (auto& part : rows.parts) {
    for (auto& shard : part) shard.take_back();
  }
  --rows.step;
  rows.remembers = false;
}

std::string print_memory(const ServerMemory& memory) {
  if (!memory.has_rows) return "new";
  return fmt::format("{}{}", memory.step, memory.remembers ? "+" : "");
}

ServerMemory parse_memory(const std::string& text) {
  if (text == "new") return {};
  const bool remembers = text.ends_with('+');
  const auto step = parse_integer(text.substr(0, text.size() - (remembers ? 1 : 0)));
  if (!step || *step < 0) fail(ErrorKind::data, "recovery", "a server's report of its rows is invalid: {}", text);
  return {.has_rows = true, .step = *step, .remembers = remembers};
}

RowsPlan plan_rows(const std::vector<ServerMemory>& servers, std::int64_t step, int replicas) {
  RowsPlan plan;
  const auto count = servers.size();
  const auto beside = [&](std::size_t server, std::size_t distance) { return servers[(server + distance) % count]; };
  for (std::size_t server = 0; server < count; ++server) {
    const auto& memory = servers[server];
    const bool ahead = memory.has_rows && memory.remembers && memory.step == step + 1;
    plan.takes_back.push_back(ahead);
    plan.takes_rows.push_back(!memory.has_rows);
    if (!plan.obstacle.empty() || ahead) continue;
    if (memory.has_rows && memory.step != step) {
      plan.obstacle = fmt::format("server {} has the rows after step {}, and the workers go on after step {}", server,
                                  memory.step, step);
    } else if (!memory.has_rows && replicas < 2) {
      plan.obstacle = fmt::format("the rows of server {} are lost with it (parallel.server.replicas is 1)", server);
    } else if (!memory.has_rows && !(beside(server, 1).has_rows && beside(server, count - 1).has_rows)) {
      plan.obstacle = fmt::format("the rows of server {} are lost with it and one beside it", server);
    }
  }
  return plan;
}

}  // namespace lockstep::parameter_servers
