// The JSON of an elastic job's values, for the messages between launchers and their service and for the saved state.
#pragma once

#include <lockstep/cluster/elastic/decide.h>
#include <lockstep/cluster/elastic/job_state.h>
#include <lockstep/cluster/elastic/rank_ends.h>
#include <lockstep/cluster/replace/rank_losses.h>

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::cluster {

// The readers throw nlohmann::json::exception for a field that is missing, of another type or out of its range, as the
// text is from another process.

nlohmann::json json_of(const RankLosses& losses);
RankLosses rank_losses_from(const nlohmann::json& json);

namespace elastic {

nlohmann::json json_of(const NodeDescription& node);
nlohmann::json json_of(const Policy& policy);
nlohmann::json json_of(const NodeReport& report);
nlohmann::json json_of(const JobState& state);
nlohmann::json json_of(const NodePlace& node_place);
nlohmann::json json_of(const Place& place);
nlohmann::json json_of(const NodeEnds& ends);

NodeDescription description_from(const nlohmann::json& json);
Policy policy_from(const nlohmann::json& json);
NodeReport report_from(const nlohmann::json& json);
JobState state_from(const nlohmann::json& json);
NodePlace node_place_from(const nlohmann::json& json);
Place place_from(const nlohmann::json& json);
NodeEnds ends_from(const nlohmann::json& json);

/// The compact text. Replaces bytes that are not UTF-8, since a rank may write any bytes to stderr.
std::string text_of(const nlohmann::json& json);

}  // namespace elastic
}  // namespace lockstep::cluster
