// Looks for the algorithm that makes a tensor smallest, and compresses it with two threads.
//
//     c++ -std=c++17 compress.cpp -lmgcomp -o compress && ./compress
#include <mgcomp.h>

#include <cmath>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// Throws the text of the last error if a call failed.
void check(mgcompResult result)
{
    if (result == MGCOMP_RESULT_SUCCESS)
        return;
    const char *message = nullptr;
    mgcompLastError(&message);
    throw std::runtime_error(message);
}

/// Threads that end with the scope.
class Workers {
public:
    explicit Workers(uint32_t threads) { check(mgcompCreateWorkers(threads, &handle_)); }
    ~Workers() { mgcompDestroyWorkers(handle_); }
    Workers(const Workers &) = delete;
    Workers &operator=(const Workers &) = delete;
    mgcompWorkers handle() const { return handle_; }

private:
    mgcompWorkers handle_{};
};

/// The algorithm whose frame is estimated to be the shortest.
mgcompAlgorithm smallest(const std::vector<float> &tensor)
{
    mgcompAlgorithm best = MGCOMP_ALGORITHM_XP;
    std::uint64_t least = UINT64_MAX;
    for (std::uint32_t number = 1; number <= 10; ++number) {
        const auto algorithm = static_cast<mgcompAlgorithm>(number);
        std::uint64_t bytes = 0;
        check(mgcompEstimateFrame(algorithm, MGCOMP_ELEMENT_F32, tensor.data(), tensor.size() * sizeof(float),
                                  nullptr, 0, &bytes));
        if (bytes < least) {
            least = bytes;
            best = algorithm;
        }
    }
    return best;
}

std::vector<char> compress(const std::vector<float> &tensor, mgcompAlgorithm algorithm, const Workers &workers)
{
    mgcompFrameOptions options{};
    options.checksum = 1;
    options.workers = workers.handle();
    const std::size_t raw_bytes = tensor.size() * sizeof(float);
    std::size_t bytes = 0;
    check(mgcompBoundFrame(raw_bytes, &options, &bytes));
    std::vector<char> frame(bytes);
    check(mgcompEncodeFrame(algorithm, MGCOMP_ELEMENT_F32, tensor.data(), raw_bytes, &options, frame.data(),
                            frame.size(), &bytes));
    frame.resize(bytes);
    return frame;
}

std::vector<float> decompress(const std::vector<char> &frame, const Workers &workers)
{
    mgcompFrameInfo info{};
    check(mgcompInspectFrame(frame.data(), frame.size(), &info));
    std::vector<float> tensor(info.rawBytes / sizeof(float));
    std::size_t bytes = 0;
    check(mgcompDecodeFrame(frame.data(), frame.size(), workers.handle(), tensor.data(),
                            tensor.size() * sizeof(float), &bytes));
    return tensor;
}

} // namespace

int main()
try {
    std::vector<float> tensor(1 << 18);
    for (std::size_t i = 0; i < tensor.size(); ++i) // after ReLU: half of it is zero
        tensor[i] = std::fmax(0.0F, std::sin(static_cast<float>(i * i % 1009)));

    const Workers workers(2);
    const mgcompAlgorithm algorithm = smallest(tensor);
    const std::vector<char> frame = compress(tensor, algorithm, workers);
    if (decompress(frame, workers) != tensor)
        throw std::runtime_error("the tensor differs");
    const char *name = nullptr;
    check(mgcompGetAlgorithmName(algorithm, &name));
    std::cout << tensor.size() * sizeof(float) << " bytes as " << frame.size() << " with " << name << ", and back\n";
    return 0;
} catch (const std::exception &error) {
    std::cerr << "mgcomp: " << error.what() << '\n';
    return 1;
}
