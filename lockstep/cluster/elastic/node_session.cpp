// The steps of a launcher's session: greeting, welcome, views of the job, and what is sent again on each connection.
#include <lockstep/base/crypto.h>
#include <lockstep/cluster/elastic/node_session.h>

#include <utility>

namespace lockstep::cluster::elastic {
namespace {

/// One step: what it changes, and the messages that come out of it.
class NodeSessionStep {
 public:
  explicit NodeSessionStep(NodeSession& session) : session_(session) {}

  void take(const FromNodeService& message) {
    std::visit([this](const auto& each) { take(each); }, message);
  }
  void take(const NodeDisconnected& /*end*/) { session_.connected = false; }
  void take(const NodeBeat& /*beat*/) { send_report(); }
  void take(const NodeReport& report) {
    session_.report = report;
    send_report();
  }
  void take(const RanksEnded& ended) { send(session_.ended.emplace(ended)); }
  void take(const RanksMeet& meet) { send(session_.meet.emplace(meet)); }
  void take(const RanksLost& lost) { send(session_.lost.emplace(lost)); }
  void take(const NodeWish& /*wish*/) { send(ReplacementWish{++session_.wishes}); }

  std::vector<FromNode> messages() { return std::move(messages_); }

 private:
  void take(const NodeGreeting& greeting);
  void take(const NodeWelcome& welcome);
  void take(const NodeRefusal& refusal);
  void take(const JobView& view);
  void take(const ReplacementAnswer& answer) {
    if (answer.number > session_.answer.number) session_.answer = answer;
  }
  void end(SessionEnd end);
  void take(const Goodbye& /*goodbye*/) { session_.said_goodbye = true; }

  void send_report() { send(session_.report); }
  void send(FromNode message) {
    if (session_.connected) messages_.push_back(std::move(message));
  }

  NodeSession& session_;
  std::vector<FromNode> messages_;
};

// A launcher that has a service already may meet another one at an address that its own had: it tries again.
void NodeSessionStep::end(SessionEnd end) {
  if (session_.ticket != 0 && !end.again && end.kind == ErrorKind::environment) {
    fail(ErrorKind::data, "message", "another service: {}", end.reason);
  }
  session_.over = std::move(end);
}

void NodeSessionStep::take(const NodeGreeting& greeting) {
  const auto& facts = session_.facts;
  if (greeting.protocol != kNodeProtocol) {
    return end({ErrorKind::environment, "it uses another protocol: start the same version of lockstep on all nodes"});
  }
  if (greeting.secret && facts.secret.empty()) {
    return end({ErrorKind::environment,
                "it requires a secret, and this launcher has none; set LOCKSTEP_STORE_SECRET to the "
                "same text on all nodes"});
  }
  if (!greeting.secret && !facts.secret.empty()) {
    return end({ErrorKind::environment,
                "it has no secret, and this launcher has one; set LOCKSTEP_STORE_SECRET to the same "
                "text on all nodes"});
  }
  NodeHello hello{.job = facts.job,
                  .life = facts.life,
                  .node = facts.node,
                  .policy = facts.policy,
                  .ticket = session_.ticket,
                  .service = session_.service,
                  .nonce = facts.nonce,
                  .proof = {}};
  if (!facts.secret.empty()) hello.proof = prove(facts.secret, "node " + facts.life, greeting.nonce);
  messages_.emplace_back(std::move(hello));
}

void NodeSessionStep::take(const NodeWelcome& welcome) {
  const auto& facts = session_.facts;
  if (!facts.secret.empty() && !is_proof(welcome.proof, facts.secret, "node service", facts.nonce)) {
    fail(ErrorKind::data, "message", "the service has not proved that it has the secret");
  }
  if (session_.ticket != 0 && welcome.ticket != session_.ticket) {
    fail(ErrorKind::data, "message", "the service gave this launcher the number {}, and it has {} already",
         welcome.ticket, session_.ticket);
  }
  session_.ticket = welcome.ticket;
  session_.service = welcome.service;
  session_.connected = true;
  if (session_.meet) send(*session_.meet);
  if (session_.lost) send(*session_.lost);
  if (session_.ended) send(*session_.ended);
  if (!is_answered(session_)) send(ReplacementWish{session_.wishes});
  send_report();
}

void NodeSessionStep::take(const NodeRefusal& refusal) {
  const auto kind =
      refusal.ended ? ErrorKind::invalid_argument : (refusal.again ? ErrorKind::peer_lost : ErrorKind::environment);
  end({kind, refusal.reason, refusal.again});
}

// Nothing of an earlier connection arrives after a later welcome, so the last view is the newest.
void NodeSessionStep::take(const JobView& view) {
  if (!session_.connected)
    fail(ErrorKind::data, "message", "the state of the job arrived before the answer to the first message (hello)");
  session_.view = view;
}

}  // namespace

std::vector<FromNode> step(NodeSession& session, const NodeSessionInput& input) {
  NodeSessionStep step(session);
  std::visit([&](const auto& one) { step.take(one); }, input);
  return step.messages();
}

bool is_answered(const NodeSession& session) { return session.answer.number >= session.wishes; }

}  // namespace lockstep::cluster::elastic
