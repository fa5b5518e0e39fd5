// A network of one's own with embedding tables: how much a user likes a film, from a number for each user and film.
//   own_tables                                                     trains by itself, with the tables in its memory
//   lockstep run --nproc-per-node 2 own_tables                     on two ranks, each with the tables
//   lockstep run --nproc-per-node 2 --servers 2 own_tables         the tables are on two servers; the same result
//   lockstep run --nproc-per-node 2 --servers 2 own_tables 'parallel.server.parameters=["*"]'     everything is there
#include <lockstep/lockstep.h>
#include <lockstep/models/network.h>
#include <torch/torch.h>

using namespace lockstep;

constexpr std::int64_t kUsers = 1000, kFilms = 300, kFeatures = 8;

// Users and films have features, which are learned; where they agree, the user likes the film.
struct Net : torch::nn::Module {
  Net() { register_module("users", users), register_module("films", films), register_module("out", out); }
  torch::Tensor forward(const torch::Tensor& user, const torch::Tensor& film) {
    return out(users(user) * films(film)).squeeze(-1);
  }
  models::ServedEmbedding users{models::EmbeddingShape{.rows = kUsers, .dim = kFeatures, .deviation = 0.5}};
  models::ServedEmbedding films{models::EmbeddingShape{.rows = kFilms, .dim = kFeatures, .deviation = 0.5}};
  torch::nn::Linear out{kFeatures, 1};
};

// Made-up ratings: there are three kinds of users and of films.
struct Ratings : samples::Dataset {
  explicit Ratings(data::Split split) : count(split == data::Split::train ? 40000 : 4000) {}
  std::int64_t size() const override { return count; }
  samples::Sample get(std::int64_t, const samples::Chance& chance) const override {
    const auto draw = [&](const char* name, std::int64_t below) {
      const auto square = chance.uniform(name) * chance.uniform(name);  // the first ones are popular
      return static_cast<std::int64_t>(square * static_cast<double>(below));
    };
    const auto user = draw("user", kUsers), film = draw("film", kFilms);
    const float rating = user % 3 == film % 3 ? 1 : 0;
    return {
        .tensors = {{"user", torch::tensor(user)}, {"film", torch::tensor(film)}, {"likes", torch::tensor(rating)}}};
  }
  std::int64_t count;
};

train::Outcome loss(Net& net, const samples::Batch& batch) {
  const auto logits = net.forward(batch["user"], batch["film"]);
  return {.loss = torch::binary_cross_entropy_with_logits(logits, batch["likes"], {}, {}, torch::Reduction::Mean),
          .sums = {{"accuracy", train::sum_of((logits > 0) == (batch["likes"] > 0.5))}}};
}

int main(int argc, char** argv) {
  train::RunConfig defaults;
  defaults.parallel.mode = "parameter_server";  // without servers: as data_parallel
  defaults.optimizer.name = "lazy_adam";        // an optimizer of rows
  defaults.optimizer.lr = 0.05;
  defaults.data.global_batch_size = 200;
  defaults.train.epochs = 4;
  defaults.system.work_dir = "out/own_tables";
  const auto make = [](const train::RunConfig&) {
    return train::Program{.name = "tastes",
                          .model = [] { return std::make_shared<Net>(); },
                          .task = train::make_task<Net>(loss),
                          .data = [](data::Split split) { return std::make_shared<Ratings>(split); }};
  };
  return train_main(argc, argv, make, defaults);
}
