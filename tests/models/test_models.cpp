// Shapes, names, counts and errors of the models. That they compute the same as Python's is tests/parity's matter.
#include <lockstep/base/error.h>
#include <lockstep/models/network.h>
#include <lockstep/models/picture_models.h>
#include <lockstep/models/registry.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep::models {
namespace {

using testing::HasSubstr;

std::int64_t count_parameters(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << "expected an Error";
  return {};
}

TEST(Models, have_as_many_parameters_as_published) {
  EXPECT_EQ(count_parameters(*resnet18()), 11'689'512);
  EXPECT_EQ(count_parameters(*resnet34()), 21'797'672);
  EXPECT_EQ(count_parameters(*resnet50()), 25'557'032);
  EXPECT_EQ(count_parameters(*make_classifier({.name = "resnet20"}).module), 269'722);
  EXPECT_EQ(count_parameters(*make_classifier({.name = "mlp"}).module), 1'863'690);
  EXPECT_EQ(count_parameters(*make_classifier({.name = "lenet5", .in_channels = 1}).module), 61'706);
}

TEST(Models, the_stem_of_cifar_leaves_the_size_of_a_picture) {
  const ModelSpec spec{.name = "resnet18", .num_classes = 10, .stem = "cifar"};
  const auto model = make_classifier(spec);
  EXPECT_EQ(count_parameters(*model.module), 11'173'962);
  EXPECT_EQ(model.module->named_parameters()["conv1.weight"].sizes(), (std::vector<std::int64_t>{64, 3, 3, 3}));
  EXPECT_EQ(model.forward(torch::rand({2, 3, 32, 32})).sizes(), (std::vector<std::int64_t>{2, 10}));

  const auto note = note_on_stem({.name = "resnet18"}, 32, 32);
  for (const char* words : {"stem imagenet", "picture of 32x32 one pixel", "model.stem=cifar"}) {
    EXPECT_THAT(note, HasSubstr(words));
  }
  EXPECT_THAT(note_on_stem(spec, 8, 8), HasSubstr("larger pictures"));
  for (const auto& [fine, size] : {std::pair{spec, 9}, {ModelSpec{.name = "resnet18"}, 33}, {{.name = "vgg11"}, 32}}) {
    EXPECT_EQ(note_on_stem(fine, size, size), "") << fine.name;
  }
  EXPECT_THAT(error_of([] { make_classifier({.name = "resnet18", .stem = "mnist"}); }),
              HasSubstr("the stem of resnet18 is imagenet or cifar, not 'mnist'"));
}

TEST(Models, map_small_pictures_to_logits) {
  for (const auto& name : model_names()) {
    const auto model = make_classifier({.name = name, .num_classes = 7, .in_features = 3 * 32 * 32});
    EXPECT_EQ(model.forward(torch::rand({2, 3, 32, 32})).sizes(), (std::vector<std::int64_t>{2, 7})) << name;
  }
}

TEST(Models, resnets_take_other_sizes_and_channels) {
  torch::NoGradGuard no_grad;
  const std::vector<std::int64_t> expected = {1, 10};
  const auto resnet = make_classifier({.name = "resnet18", .in_channels = 1});
  resnet.module->eval();
  for (const std::int64_t size : {1, 28, 33, 224}) {
    EXPECT_EQ(resnet.forward(torch::rand({1, 1, size, size})).sizes(), expected) << size;
  }
  const auto cifar = make_classifier({.name = "resnet20"});
  EXPECT_EQ(cifar.forward(torch::rand({1, 3, 40, 24})).sizes(), expected);
}

TEST(Models, channels_last_changes_the_layout_only) {
  torch::NoGradGuard no_grad;
  const auto model = make_classifier({.name = "resnet20"});
  const auto pictures = torch::rand({2, 3, 32, 32});
  EXPECT_TRUE(
      torch::allclose(model.forward(pictures), model.forward(pictures.to(at::MemoryFormat::ChannelsLast)), 1e-4, 1e-4));
}

TEST(Models, the_same_seed_gives_the_same_weights) {
  for (const auto& name : model_names()) {
    torch::manual_seed(5);
    const auto first = make_classifier({.name = name}).module->parameters();
    torch::manual_seed(5);
    const auto second = make_classifier({.name = name}).module->parameters();
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(first[i].equal(second[i])) << name << " " << i;
  }
}

TEST(Models, the_bottleneck_carries_its_stride_in_the_3x3_convolution) {
  const auto modules = resnet50()->named_modules();
  const auto stride = [&](const char* name) { return modules[name]->as<torch::nn::Conv2d>()->options.stride()->at(0); };
  EXPECT_EQ(stride("layer2.0.conv1"), 1);
  EXPECT_EQ(stride("layer2.0.conv2"), 2);
  EXPECT_EQ(stride("layer2.0.downsample.0"), 2);
}

TEST(Models, the_padding_shortcut_takes_every_other_pixel_and_appends_zero_channels) {
  auto stage = residual_stage(
      {.block = Block::basic, .shortcut = Shortcut::padding, .in_channels = 2, .channels = 4, .depth = 1, .stride = 2});
  torch::NoGradGuard no_grad;
  stage->named_parameters()["0.bn2.weight"].zero_();  // only the shortcut is left
  const auto x = torch::arange(32, torch::kFloat).reshape({1, 2, 4, 4});
  const auto expected =
      torch::tensor({0.F, 2.F, 8.F, 10.F, 16.F, 18.F, 24.F, 26.F, 0.F, 0.F, 0.F, 0.F, 0.F, 0.F, 0.F, 0.F})
          .reshape({1, 4, 2, 2});
  EXPECT_TRUE(stage->forward(x).equal(expected));
  for (const auto& parameter : stage->named_parameters()) EXPECT_THAT(parameter.key(), Not(HasSubstr("downsample")));
}

TEST(Models, lenet5_pads_28x28_with_zeros) {
  const auto model = make_classifier({.name = "lenet5", .in_channels = 1});
  const auto pictures = torch::rand({2, 1, 28, 28});
  const auto padded = torch::constant_pad_nd(pictures, {2, 2, 2, 2});
  EXPECT_TRUE(model.forward(pictures).equal(model.forward(padded)));
}

TEST(Models, an_mlp_without_hidden_layers_is_one_linear_layer) {
  const auto model = make_classifier({.name = "mlp", .num_classes = 2, .in_features = 3, .hidden = {}});
  const auto parameters = model.module->named_parameters();
  ASSERT_EQ(parameters.keys(), (std::vector<std::string>{"fc1.weight", "fc1.bias"}));
  const auto x = torch::tensor({{1.F, 2.F, 3.F}});
  const auto expected = torch::addmm(parameters["fc1.bias"], x, parameters["fc1.weight"].t());
  EXPECT_TRUE(torch::allclose(model.forward(x), expected));
}

TEST(Models, an_unknown_name_is_answered_with_the_nearest) {
  const auto message = error_of([] { make_classifier({.name = "resnet81"}); });
  EXPECT_THAT(message, HasSubstr("\"resnet81\""));
  EXPECT_THAT(message, HasSubstr("did you mean 'resnet18'"));
  EXPECT_THAT(message, HasSubstr("lenet5"));
}

TEST(Models, sizes_below_one_are_errors) {
  EXPECT_THAT(error_of([] { make_classifier({.name = "resnet18", .num_classes = 0}); }),
              HasSubstr("num_classes must be at least 1; it is 0"));
  EXPECT_THAT(error_of([] { make_classifier({.name = "resnet18", .in_channels = -3}); }), HasSubstr("in_channels"));
  EXPECT_THAT(error_of([] { make_classifier({.name = "mlp", .in_features = 0}); }), HasSubstr("in_features"));
  EXPECT_THAT(error_of([] { make_classifier({.name = "mlp", .hidden = {8, 0}}); }), HasSubstr("hidden"));
}

TEST(Models, a_batch_of_the_wrong_shape_is_named) {
  EXPECT_THAT(error_of([] {
                make_classifier({.name = "resnet18"}).forward(torch::rand({2, 1, 32, 32}));
              }),
              AllOf(HasSubstr("3 channels"), HasSubstr("[2, 1, 32, 32]")));
  EXPECT_THAT(error_of([] {
                make_classifier({.name = "resnet20"}).forward(torch::rand({3, 32, 32}));
              }),
              HasSubstr("[3, 32, 32]"));
  EXPECT_THAT(error_of([] {
                make_classifier({.name = "mlp"}).forward(torch::rand({2, 3, 32, 32}));
              }),
              AllOf(HasSubstr("784"), HasSubstr("[2, 3, 32, 32]"), HasSubstr("in_features")));
  EXPECT_THAT(error_of([] {
                make_classifier({.name = "lenet5"}).forward(torch::rand({2, 3, 64, 48}));
              }),
              HasSubstr("64x48"));
}

TEST(Models, a_classifier_needs_a_module_of_the_registry) {
  EXPECT_THAT(error_of([] { Classifier().forward(torch::rand({1, 3, 32, 32})); }), HasSubstr("make_classifier"));
}

TEST(Summary, lists_each_tensor_and_the_totals) {
  const auto model = make_classifier({.name = "mlp", .num_classes = 2, .in_features = 1000, .hidden = {3}});
  model.module->named_parameters()["fc1.bias"].set_requires_grad(false);
  EXPECT_EQ(summarize(*model.module),
            "name        shape            values\n"
            "fc1.weight  [3, 1000]         3,000\n"
            "fc1.bias    [3]                   3  frozen\n"
            "fc2.weight  [2, 3]                6\n"
            "fc2.bias    [2]                   2\n"
            "parameters: 3,011 (3,008 trainable, 3 frozen); buffers: 0; together 0.0 MiB\n");
}

TEST(Summary, counts_shared_tensors_once) {
  torch::nn::Linear linear(torch::nn::LinearOptions(2, 2).bias(false));
  torch::nn::Sequential twice(linear, torch::nn::BatchNorm1d(2), linear);
  const auto text = summarize(*twice);
  EXPECT_THAT(text, HasSubstr("2.weight               [2, 2]             4  shared\n"));
  EXPECT_THAT(text, HasSubstr("1.num_batches_tracked  []                 1  buffer\n"));
  EXPECT_THAT(text, HasSubstr("parameters: 8 (8 trainable, 0 frozen); buffers: 5;"));
}

}  // namespace
}  // namespace lockstep::models
