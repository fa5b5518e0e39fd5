// The advice for embedding tables as text and as JSON.
#include <lockstep/plan/report/explain.h>
#include <lockstep/plan/tables/table_advice.h>

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lockstep::plan {
namespace {

std::string tables_text(const TableAdvice& advice) {
  std::string text;
  for (const auto& each : advice.question.tables) {
    text += fmt::format(
        "  {}: {} rows of {} numbers, {} with the optimizer's; {} rows in a worker's step\n", each.name, each.rows,
        each.dim,
        shown(Bytes{4.0 * (1 + each.states) * static_cast<double>(each.rows) * static_cast<double>(each.dim)}),
        each.used);
  }
  return text;
}

std::string ways_text(const TableAdvice& advice) {
  auto text = fmt::format("  {:<31} {:>10} {:>14} {:>10} {:>12} {:>12}\n", "tables", "sent", "communication", "update",
                          "a worker has", "a server has");
  for (const auto& each : advice.costs) {
    text +=
        fmt::format("  {:<31} {:>10} {:>14} {:>10} {:>12} {:>12}{}\n", name(each.way), shown(each.sent),
                    shown(each.communication), shown(each.update), shown(each.worker_memory),
                    each.way == TableWay::servers ? shown(each.server_memory) : "-", each.fits ? "" : "  does not fit");
  }
  return text;
}

std::string reason(const TableAdvice& advice) {
  const auto& best = advice.costs.at(static_cast<std::size_t>(advice.best));
  if (!best.fits) {
    return fmt::format("nothing fits into {} a device; parameter servers fit with more servers, or more memory",
                       shown(advice.device_memory));
  }
  std::string text;
  for (const auto& each : advice.costs) {
    if (each.way == advice.best) continue;
    if (!text.empty()) text += "; ";
    if (!each.fits) {
      text += fmt::format("{} needs {} on a device of {}", name(each.way),
                          shown(std::max(each.worker_memory, each.server_memory)), shown(advice.device_memory));
    } else if (each.time() < best.time()) {
      text += fmt::format("{} would save less than half of the time, and need more processes", name(each.way));
    } else {
      text += fmt::format("{} takes {:.3g} times as long", name(each.way), each.time() / best.time());
    }
  }
  return text;
}

}  // namespace

std::string explain(const TableAdvice& advice) {
  return fmt::format(
      "Embedding tables, {} worker(s) with {} samples a step each (rows counted in {}):\n{}\nA step's work for the "
      "tables, with {} server(s) where there are any:\n{}\nBest for the tables: {}. {}.\nAs a run: {}\n",
      advice.workers, advice.question.samples, advice.question.counted, tables_text(advice), advice.servers,
      ways_text(advice), name(advice.best), reason(advice), keys_of(advice.best));
}

std::string advice_json(const TableAdvice& advice) {
  using Json = nlohmann::ordered_json;
  Json tables = Json::array();
  for (const auto& each : advice.question.tables) {
    tables.push_back({{"name", each.name}, {"rows", each.rows}, {"dim", each.dim}, {"used_rows", each.used}});
  }
  Json ways = Json::array();
  for (const auto& each : advice.costs) {
    ways.push_back({{"name", name(each.way)},
                    {"sent_bytes", each.sent.value},
                    {"communication_s", each.communication.value},
                    {"update_s", each.update.value},
                    {"worker_memory_bytes", each.worker_memory.value},
                    {"server_memory_bytes", each.server_memory.value},
                    {"fits", each.fits}});
  }
  return Json{{"workers", advice.workers},          {"servers", advice.servers},
              {"samples", advice.question.samples}, {"counted_in", advice.question.counted},
              {"tables", std::move(tables)},        {"ways", std::move(ways)},
              {"best", name(advice.best)},          {"keys", keys_of(advice.best)}}
             .dump(2) +
         "\n";
}

}  // namespace lockstep::plan
