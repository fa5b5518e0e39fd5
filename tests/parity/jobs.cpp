#include "parity/jobs.h"

#include <lockstep/models/registry.h>

#include "parity/odd_models.h"

#include <nlohmann/json.hpp>

#include <fstream>

namespace lockstep::parity {

Job read_job(const std::filesystem::path& path) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  Job job;
  json.at("model").get_to(job.model);
  json.at("num_classes").get_to(job.num_classes);
  json.at("in_channels").get_to(job.in_channels);
  json.at("in_features").get_to(job.in_features);
  json.at("hidden").get_to(job.hidden);
  job.stem = json.value("stem", job.stem);
  job.out = json.at("out").get<std::string>();
  job.weights = json.value("weights", "");
  job.seed = json.value("seed", job.seed);
  job.batch = json.value("batch", "");
  job.batches = json.value("batches", "");
  job.steps = json.value("steps", job.steps);
  job.batch_size = json.value("batch_size", job.batch_size);
  job.micro_batches = json.value("micro_batches", job.micro_batches);
  job.learning_rate = json.value("learning_rate", job.learning_rate);
  job.momentum = json.value("momentum", job.momentum);
  job.dtype = json.value("dtype", job.dtype);
  job.frozen = json.value("frozen", job.frozen);
  job.channels_last = json.value("channels_last", job.channels_last);
  return job;
}

std::shared_ptr<models::Network> make_model(const Job& job) {
  if (job.model == "two_heads") return std::make_shared<TwoHeads>(job.in_features, job.num_classes);
  if (job.model == "tied") return std::make_shared<Tied>(job.in_features, job.num_classes);
  const auto classifier = models::make_classifier({.name = job.model,
                                                   .num_classes = job.num_classes,
                                                   .in_channels = job.in_channels,
                                                   .in_features = job.in_features,
                                                   .hidden = job.hidden,
                                                   .stem = job.stem});
  return std::dynamic_pointer_cast<models::Network>(classifier.module);
}

}  // namespace lockstep::parity
