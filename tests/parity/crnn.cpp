// What the Python tests ask of CRNN:
//   parity_crnn gradients JOB   one forward, CTC loss and backward with the job's weights; writes all that came of it
// The job: model, channels, hidden, num_classes, blank; the files weights, batch and out. The batch: pictures, and the
// words as classes, one after the other, with their lengths.
#include <apps/ocr/recognition/crnn.h>
#include <apps/ocr/recognition/ctc.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/train/named_tensors.h>

#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using namespace lockstep;

std::vector<std::int64_t> numbers_of(const at::Tensor& tensor) {
  const auto whole = tensor.to(torch::kLong).contiguous();
  return {whole.data_ptr<std::int64_t>(), whole.data_ptr<std::int64_t>() + whole.numel()};
}

void write_gradients(const nlohmann::json& job) {
  const ocr::CrnnOptions options{job.at("num_classes"), job.at("channels"), job.at("hidden")};
  const auto model = job.at("model") == "crnn_vgg7" ? ocr::crnn_vgg7(options) : ocr::crnn_resnet34(options);
  train::load_weights(*model, job.at("weights").get<std::string>());
  const auto batch = state::load_safetensors(job.at("batch").get<std::string>());

  const auto logits = model->forward(batch.at("pictures"));
  const ocr::CtcTargets words{numbers_of(batch.at("classes")), numbers_of(batch.at("lengths"))};
  const auto losses = ocr::ctc_losses(logits, words, job.at("blank"), /*zero_infinity=*/true);
  const auto loss = losses.mean();
  loss.backward();

  state::NamedTensors results = {{"logits", logits}, {"losses", losses}, {"loss", loss}};
  for (const auto& item : model->named_parameters()) results["gradient." + item.key()] = item.value().grad();
  for (const auto& item : model->named_buffers()) results["buffer." + item.key()] = item.value();
  model->eval();
  const torch::NoGradGuard no_grad;
  results["eval_logits"] = model->forward(batch.at("pictures"));
  state::save_safetensors(job.at("out").get<std::string>(), results);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::string(argv[1]) != "gradients") {
    std::fputs("usage: parity_crnn gradients JOB\n", stderr);
    return 2;
  }
  try {
    std::ifstream file(argv[2]);
    write_gradients(nlohmann::json::parse(file));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
