// The losses of a job's ranks as JSON, for the messages between launchers and for the saved state.
#include <lockstep/base/json.h>
#include <lockstep/cluster/replace/rank_losses.h>

#include <nlohmann/json.hpp>

namespace lockstep::cluster {

using nlohmann::json;

json json_of(const RankLosses& losses) {
  json object = {{"processes", losses.processes}, {"completed", losses.completed}};
  if (losses.ranks) object["ranks"] = *losses.ranks;
  return object;
}

RankLosses rank_losses_from(const json& value) {
  RankLosses losses;
  for (const json& each : value.at("processes"))
    losses.processes.emplace(integer_of<int>(each.at(0)), integer_of<std::int64_t>(each.at(1)));
  losses.completed = integer_of<int>(value.at("completed"));
  if (!value.contains("ranks")) return losses;
  auto& ranks = losses.ranks.emplace();
  for (const json& rank : value["ranks"]) ranks.push_back(integer_of<int>(rank));
  return losses;
}

}  // namespace lockstep::cluster
