#include <lockstep/base/error.h>
#include <lockstep/servers/client.h>
#include <lockstep/servers/messages.h>
#include <lockstep/servers/wire.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <list>
#include <utility>

namespace lockstep::servers {

/// The ids of a request that one server has, with their places in the request.
struct Client::Part {
  std::vector<std::int64_t> ids;
  std::vector<std::size_t> places;
  HeaderWords header{};
};

namespace {

/// What travels in a push to the servers that have the rows of one part.
struct Parcel {
  std::array<HeaderWords, 2> headers{};  ///< to the server of the part, and to that with its copy
  std::vector<PushedTable> tables;
  std::vector<std::int64_t> counts;
  std::vector<std::int64_t> ids;
  std::vector<float> values;
};

}  // namespace

Client::Client(std::vector<Group> pairs, std::vector<TableSpec> tables, Partition partition, std::int64_t step,
               int replicas)
    : pairs_(std::move(pairs)), tables_(std::move(tables)), partition_(partition), step_(step), replicas_(replicas) {}

std::size_t Client::index_of(const std::string& table) const {
  const auto found = std::ranges::find(tables_, table, &TableSpec::name);
  if (found == tables_.end()) fail(ErrorKind::invalid_argument, "parameter server", "there is no table {}", table);
  return static_cast<std::size_t>(found - tables_.begin());
}

std::vector<Client::Part> Client::parts_of(std::size_t table, std::span<const std::int64_t> ids) const {
  std::vector<Part> parts(pairs_.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto server = server_of(partition_, tables_[table], ids[i], static_cast<int>(pairs_.size()));
    auto& part = parts[static_cast<std::size_t>(server)];
    part.ids.push_back(ids[i]);
    part.places.push_back(i);
  }
  return parts;
}

void Client::rethrow_with_place(std::size_t server, const std::string& table) const {
  try {
    throw;
  } catch (const Error& error) {
    throw Error(error.kind(), error.where(),
                fmt::format("server {}, {}, after step {}: {}", server, table, step_, error.message()),
                error.position());
  }
}

at::Tensor Client::fetch(const std::string& table, std::span<const std::int64_t> ids) {
  const auto index = index_of(table);
  const auto dim = static_cast<std::size_t>(tables_[index].dim);
  auto rows = at::empty({static_cast<std::int64_t>(ids.size()), tables_[index].dim}, at::kFloat);
  auto parts = parts_of(index, ids);
  std::list<Work> sends;
  std::size_t server = 0;
  try {
    for (server = 0; server < parts.size(); ++server) {
      auto& part = parts[server];
      if (part.ids.empty()) continue;
      part.header = encode(Header{.request = Request::pull,
                                  .step = step_,
                                  .table = static_cast<std::int64_t>(index),
                                  .ids = static_cast<std::int64_t>(part.ids.size())});
      sends.push_back(send_numbers(std::span<const std::int64_t>(part.header), pairs_[server]));
      sends.push_back(send_numbers(std::span<const std::int64_t>(part.ids), pairs_[server]));
    }
    std::vector<float> received;
    auto* out = rows.data_ptr<float>();
    for (server = 0; server < parts.size(); ++server) {
      const auto& part = parts[server];
      received.resize(part.ids.size() * dim);
      receive_numbers(received, pairs_[server], pairs_[server].timeout());
      for (std::size_t i = 0; i < part.places.size(); ++i) {
        std::copy_n(received.data() + i * dim, dim, out + part.places[i] * dim);
      }
    }
    for (auto& send : sends) send.wait();
  } catch (const Error&) {
    rethrow_with_place(server, table);
  }
  return rows;
}

void Client::push(std::span<const models::RowTableImpl::Gradient> gradients, double lr, double scale) {
  std::vector<Parcel> parcels(pairs_.size());
  for (std::size_t table = 0; table < gradients.size(); ++table) {
    const auto& gradient = gradients[table];
    const auto dim = static_cast<std::size_t>(tables_[table].dim);
    const auto parts = parts_of(table, gradient.rows.ids);
    for (std::size_t server = 0; server < parts.size(); ++server) {
      auto& parcel = parcels[server];
      parcel.tables.push_back({gradient.used, static_cast<std::int64_t>(parts[server].ids.size())});
      parcel.ids.insert(parcel.ids.end(), parts[server].ids.begin(), parts[server].ids.end());
      for (const auto place : parts[server].places) {
        const auto* row = gradient.rows.values.data() + place * dim;
        parcel.values.insert(parcel.values.end(), row, row + dim);
      }
    }
  }
  for (auto& parcel : parcels) parcel.counts = encode(parcel.tables);
  std::list<Work> sends;
  std::size_t server = 0;
  const auto send_part = [&](std::size_t part, bool copy) {
    auto& parcel = parcels[part];
    auto& header = parcel.headers.at(copy ? 1 : 0);
    header = encode(Header{.request = Request::push,
                           .step = step_,
                           .ids = static_cast<std::int64_t>(parcel.ids.size()),
                           .lr = lr,
                           .scale = scale,
                           .copy = copy});
    const auto& pair = pairs_[server];
    sends.push_back(send_numbers(std::span<const std::int64_t>(header), pair));
    sends.push_back(send_numbers(std::span<const std::int64_t>(parcel.counts), pair));
    sends.push_back(send_numbers(std::span<const std::int64_t>(parcel.ids), pair));
    sends.push_back(send_numbers(std::span<const float>(parcel.values), pair));
  };
  try {
    for (server = 0; server < parcels.size(); ++server) {
      send_part(server, /*copy=*/false);
      if (replicas_ == 2) send_part((server + parcels.size() - 1) % parcels.size(), /*copy=*/true);
    }
    server = 0;
    for (auto& send : sends) send.wait();
  } catch (const Error&) {
    rethrow_with_place(server, "gradients");
  }
  ++step_;
}

void Client::confirm() {
  tell_all(encode(Header{.request = Request::confirm, .step = step_}));
  for (std::size_t server = 0; server < pairs_.size(); ++server) {
    std::array<std::int64_t, 1> completed{};
    try {
      receive_numbers(std::span<std::int64_t>(completed), pairs_[server], pairs_[server].timeout());
    } catch (const Error&) {
      rethrow_with_place(server, "gradients");
    }
    if (completed.front() == step_) continue;
    fail(ErrorKind::mismatch, "parameter server", "server {} has completed step {}, and this worker step {}", server,
         completed.front(), step_);
  }
}

void Client::tell_all(const HeaderWords& words) const {
  for (const auto& pair : pairs_) send_numbers(std::span<const std::int64_t>(words), pair).wait();
}

void Client::save() { tell_all(encode(Header{.request = Request::save, .step = step_})); }
void Client::finish(std::optional<int> ended_by) {
  tell_all(encode(Header{.request = Request::finish, .step = step_, .ids = ended_by.value_or(0)}));
}

}  // namespace lockstep::servers
