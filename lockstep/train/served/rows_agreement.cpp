// The exchange by which workers and servers agree on a step after a loss, and the copy of rows to replaced servers.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/texts.h>
#include <lockstep/train/served/rows_agreement.h>

#include <torch/torch.h>

#include <vector>

namespace lockstep::train {
namespace {

constexpr const char* kNothing = "none";
constexpr int kRowsTag = 2;

/// Rank 0 represents the workers.
RowsAgreement agree(const Group& everyone, int workers, int replicas, const std::string& own) {
  const auto texts = gather_texts(own, everyone);
  RowsAgreement agreed;
  if (texts.front() != kNothing) {
    agreed.step = parse_integer(texts.front());
    if (!agreed.step) fail(ErrorKind::data, "recovery", "rank 0's report of its step cannot be read");
  }
  std::vector<parameter_servers::ServerMemory> memories;
  for (auto text = texts.begin() + workers; text != texts.end(); ++text) {
    memories.push_back(parameter_servers::parse_memory(*text));
  }
  if (!agreed.step) return agreed;
  agreed.plan = parameter_servers::plan_rows(memories, *agreed.step, replicas);
  if (!agreed.plan.obstacle.empty()) agreed.step.reset();
  return agreed;
}

// The message has for each table: steps and rows, then ids and the rows with their states, in the form of checkpoints.
void send_part(std::vector<parameter_servers::Shard>& part, const Group& everyone, int rank) {
  for (auto& shard : part) {
    send(torch::tensor({shard.steps(), shard.size()}, torch::kLong), everyone, rank, kRowsTag);
    if (shard.size() == 0) continue;
    const auto ids = shard.ids();
    send(torch::from_blob(const_cast<std::int64_t*>(ids.data()), {shard.size()}, torch::kLong), everyone, rank,
         kRowsTag);
    for (std::size_t k = 0; k < shard.blocks(); ++k) {
      const auto block = shard.block(k);
      send(torch::from_blob(block.data(), {static_cast<std::int64_t>(block.size())}, torch::kFloat), everyone, rank,
           kRowsTag);
    }
  }
}

void receive_part(std::vector<parameter_servers::Shard>& part, const Group& everyone, int rank) {
  for (auto& shard : part) {
    auto head = torch::empty({2}, torch::kLong);
    receive(head, everyone, rank, kRowsTag);
    shard.set_steps(head[0].item<std::int64_t>());
    const auto count = head[1].item<std::int64_t>();
    if (count == 0) continue;
    auto ids = torch::empty({count}, torch::kLong);
    receive(ids, everyone, rank, kRowsTag);
    const auto* id = ids.data_ptr<std::int64_t>();
    for (std::int64_t next = 0; next < count;) {
      const auto rows = std::min(count - next, static_cast<std::int64_t>(shard.rows_of_block()));
      auto block = torch::empty({rows * static_cast<std::int64_t>(shard.width())}, torch::kFloat);
      receive(block, everyone, rank, kRowsTag);
      const auto* row = block.data_ptr<float>();
      for (const auto end = next + rows; next < end; ++next, row += shard.width()) {
        shard.put(id[next], {row, shard.width()});
      }
    }
  }
}

}  // namespace

RowsAgreement agree_with_servers(const Group& everyone, int workers, int replicas, std::optional<std::int64_t> step) {
  return agree(everyone, workers, replicas, step ? std::to_string(*step) : kNothing);
}

RowsAgreement agree_with_workers(const Group& everyone, int workers, int replicas,
                                 const parameter_servers::ServerMemory& own) {
  return agree(everyone, workers, replicas, parameter_servers::print_memory(own));
}

void follow(const RowsAgreement& agreed, parameter_servers::HeldRows& rows, int server, int servers,
            const Group& everyone) {
  if (!agreed.step) return;
  if (agreed.plan.takes_back[static_cast<std::size_t>(server)]) parameter_servers::take_back_step(rows);
  const int workers = everyone.size() - servers;
  for (int taker = 0; taker < servers; ++taker) {
    if (!agreed.plan.takes_rows[static_cast<std::size_t>(taker)]) continue;
    const int after = (taker + 1) % servers, before = (taker + servers - 1) % servers;
    if (server == after) send_part(rows.parts[1], everyone, workers + taker);
    if (server == before) send_part(rows.parts[0], everyone, workers + taker);
    if (server != taker) continue;
    receive_part(rows.parts[0], everyone, workers + after);
    receive_part(rows.parts[1], everyone, workers + before);
  }
  rows.step = *agreed.step;
  rows.remembers = false;
}

}  // namespace lockstep::train
