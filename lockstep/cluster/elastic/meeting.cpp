#include <lockstep/base/json_integer.h>
#include <lockstep/cluster/elastic/json_text.h>
#include <lockstep/cluster/elastic/meeting.h>

namespace lockstep::cluster::elastic {

std::string to_text(const Place& place) {
  nlohmann::json json{{"host", place.host}, {"port", place.port}};
  if (const auto& own = place.own_store; !own.place.empty()) {
    json["own_store"] = {{"place", own.place}, {"secret", own.secret}};
  }
  if (const auto& service = place.service) {
    json["service"] = {{"host", service->host}, {"port", service->port}, {"secret", service->secret}};
  }
  return to_json_text(json);
}

Place parse_place(std::string_view text) {
  return from_json_text(text, "the place where ranks meet", [](const nlohmann::json& json) {
    Place place{json.at("host").get<std::string>(), integer_of<std::uint16_t>(json.at("port"))};
    if (json.contains("own_store")) {
      const auto& own = json.at("own_store");
      place.own_store = {own.at("place").get<std::string>(), own.at("secret").get<std::string>()};
    }
    if (json.contains("service")) {
      const auto& service = json.at("service");
      place.service =
          ServiceAddress{service.at("host").get<std::string>(), integer_of<std::uint16_t>(service.at("port")),
                         service.at("secret").get<std::string>()};
    }
    return place;
  });
}

}  // namespace lockstep::cluster::elastic
