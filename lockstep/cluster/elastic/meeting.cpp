#include <lockstep/base/json_integer.h>
#include <lockstep/cluster/elastic/json_text.h>
#include <lockstep/cluster/elastic/meeting.h>

namespace lockstep::cluster::elastic {

std::string to_text(const Place& place) { return to_json_text({{"host", place.host}, {"port", place.port}}); }

Place parse_place(std::string_view text) {
  return from_json_text(text, "the place where ranks meet", [](const nlohmann::json& json) {
    return Place{json.at("host").get<std::string>(), integer_of<std::uint16_t>(json.at("port"))};
  });
}

}  // namespace lockstep::cluster::elastic
