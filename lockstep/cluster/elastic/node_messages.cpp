// The JSON of the messages between launchers and their service: written compactly, read strictly.
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/elastic/job_json.h>
#include <lockstep/cluster/elastic/node_messages.h>

#include <algorithm>

namespace lockstep::cluster::elastic {
namespace {

using nlohmann::json;

constexpr int kMostRanks = 1 << 16;

json typed(const char* type, json object) {
  object["type"] = type;
  return object;
}

std::string name_from(const json& value) {
  auto name = value.get<std::string>();
  const bool printable = std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (name.size() > kLongestName || !printable) {
    fail(ErrorKind::data, "message", "'{}' is too long for a name, or cannot be printed", cut_text(name));
  }
  return name;
}

json message_of(const NodeGreeting& m) {
  return typed("greeting", {{"protocol", m.protocol}, {"nonce", m.nonce}, {"secret", m.secret}});
}
json message_of(const NodeWelcome& m) {
  return typed("welcome", {{"ticket", m.ticket}, {"service", m.service}, {"proof", m.proof}});
}
json message_of(const NodeRefusal& m) {
  return typed("refusal", {{"reason", m.reason}, {"ended", m.ended}, {"again", m.again}});
}
json message_of(const JobView& m) {
  json object = typed("job", {{"job", json_of(m.job)}, {"sent_at", m.sent_at}});
  if (m.replaced) object["replaced"] = true;
  if (m.refused) object["refused"] = true;
  if (m.place) object["place"] = json_of(*m.place);
  if (m.meeting) object["meeting"] = json_of(*m.meeting);
  if (!m.report.empty()) object["report"] = m.report;
  if (m.losses != RankLosses()) object["losses"] = json_of(m.losses);
  return object;
}
json message_of(const ReplacementAnswer& m) {
  return typed("replacement", {{"number", m.number}, {"granted", m.granted}});
}
json message_of(const Goodbye& /*m*/) { return typed("goodbye", json::object()); }

json message_of(const NodeHello& m) {
  return typed("hello", {{"protocol", m.protocol},
                         {"job", m.job},
                         {"life", m.life},
                         {"node", json_of(m.node)},
                         {"policy", json_of(m.policy)},
                         {"ticket", m.ticket},
                         {"service", m.service},
                         {"nonce", m.nonce},
                         {"proof", m.proof}});
}
json message_of(const NodeReport& m) { return typed("report", json_of(m)); }
json message_of(const RanksEnded& m) { return typed("ended", {{"round", m.round}, {"ends", json_of(m.ends)}}); }
json message_of(const RanksMeet& m) { return typed("meet", {{"round", m.round}, {"place", json_of(m.place)}}); }
json message_of(const RanksLost& m) { return typed("lost", {{"round", m.round}, {"losses", json_of(m.losses)}}); }
json message_of(const ReplacementWish& m) { return typed("wish", {{"number", m.number}}); }

JobView view_from(const json& object) {
  JobView view;
  view.job = state_from(object.at("job"));
  view.sent_at = integer_of<std::int64_t>(object.at("sent_at"));
  view.replaced = object.value("replaced", false);
  view.refused = object.value("refused", false);
  if (object.contains("place")) view.place = node_place_from(object["place"]);
  if (object.contains("meeting")) view.meeting = place_from(object["meeting"]);
  view.report = object.value("report", "");
  if (object.contains("losses")) view.losses = rank_losses_from(object["losses"]);
  return view;
}

NodeHello hello_from(const json& object) {
  NodeHello hello;
  hello.protocol = integer_of<int>(object.at("protocol"));
  // Fields of another protocol may differ: the service refuses it by its number.
  if (hello.protocol != kNodeProtocol) return hello;
  hello.job = name_from(object.at("job"));
  hello.life = name_from(object.at("life"));
  hello.node = description_from(object.at("node"));
  hello.policy = policy_from(object.at("policy"));
  hello.ticket = integer_of<Ticket>(object.at("ticket"));
  hello.service = name_from(object.at("service"));
  hello.nonce = name_from(object.at("nonce"));
  hello.proof = name_from(object.at("proof"));
  static_cast<void>(name_from(object.at("node").at("host")));
  if (hello.node.ranks < 1 || hello.node.ranks > kMostRanks || hello.life.empty() || hello.job.empty()) {
    fail(ErrorKind::data, "message", "a launcher without a name, or with {} ranks", hello.node.ranks);
  }
  return hello;
}

/// The message whose type `read` knows. All that is wrong with it is Error(data).
template <typename Message, typename Read>
Message parse(std::string_view text, Read read) {
  try {
    const json object = json::parse(text);
    const auto type = object.at("type").get<std::string>();
    if (auto message = read(type, object)) return *message;
    fail(ErrorKind::data, "message", "'{}' is not a type of message", cut_text(type));
  } catch (const json::exception& error) {
    fail(ErrorKind::data, "message", "'{}' is not a message of a launcher or its service: {}", cut_text(text),
         error.what());
  }
}

}  // namespace

FromNodeService parse_from_node_service(std::string_view text) {
  return parse<FromNodeService>(text, [](const std::string& type, const json& m) -> std::optional<FromNodeService> {
    if (type == "job") return view_from(m);
    if (type == "greeting") {
      return NodeGreeting{integer_of<int>(m.at("protocol")), name_from(m.at("nonce")), m.at("secret").get<bool>()};
    }
    if (type == "welcome") {
      return NodeWelcome{integer_of<Ticket>(m.at("ticket")), name_from(m.at("service")), name_from(m.at("proof"))};
    }
    if (type == "refusal") {
      return NodeRefusal{m.at("reason").get<std::string>(), m.at("ended").get<bool>(), m.at("again").get<bool>()};
    }
    if (type == "replacement") {
      return ReplacementAnswer{integer_of<std::int64_t>(m.at("number")), m.at("granted").get<bool>()};
    }
    if (type == "goodbye") return Goodbye{};
    return std::nullopt;
  });
}

FromNode parse_from_node(std::string_view text) {
  return parse<FromNode>(text, [](const std::string& type, const json& m) -> std::optional<FromNode> {
    if (type == "report") return report_from(m);
    if (type == "hello") return hello_from(m);
    if (type == "ended") return RanksEnded{integer_of<int>(m.at("round")), ends_from(m.at("ends"))};
    if (type == "meet") return RanksMeet{integer_of<int>(m.at("round")), place_from(m.at("place"))};
    if (type == "lost") return RanksLost{integer_of<int>(m.at("round")), rank_losses_from(m.at("losses"))};
    if (type == "wish") return ReplacementWish{integer_of<std::int64_t>(m.at("number"))};
    return std::nullopt;
  });
}

std::string print(const FromNodeService& message) {
  return text_of(std::visit([](const auto& each) { return message_of(each); }, message));
}

std::string print(const FromNode& message) {
  return text_of(std::visit([](const auto& each) { return message_of(each); }, message));
}

}  // namespace lockstep::cluster::elastic
