// firstdiff_rng.hpp: a counter-based random generator, Philox 4x32-10, with the same bits in Python, Rust, JavaScript and C++.
// One header, C++17, no dependencies. https://github.com/firstdiff/firstdiff
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace firstdiff {
namespace detail {

// A product that no compiler joins with a sum: a fused multiply-add rounds once where the definition rounds twice.
inline double times(double a, double b) {
  volatile double product = a * b;
  return product;
}

// The logarithm of a positive number, as fdlibm's e_log.c computes it, with one branch for all arguments.
inline double log(double x) {
  int64_t exponent = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    exponent = -54;
  }
  uint64_t bits;
  std::memcpy(&bits, &x, 8);
  exponent += int64_t(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
  double mantissa;
  std::memcpy(&mantissa, &bits, 8);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  const double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  const double k = double(exponent), f = mantissa - 1;
  if (f == 0) return times(k, ln2_high) + times(k, ln2_low);
  const double s = f / (2 + f), z = times(s, s), w = times(z, z);
  const double even = times(w, 3.999999999940941908e-01 + times(w, 2.222219843214978396e-01 + times(w, 1.531383769920937332e-01)));
  const double odd = times(z, 6.666666666666735130e-01 + times(w, 2.857142874366239149e-01 + times(w, 1.818357216161805012e-01 + times(w, 1.479819860511658591e-01))));
  const double rest = odd + even, half = times(0.5 * f, f);
  return times(k, ln2_high) - ((half - (times(s, half + rest) + times(k, ln2_low))) - f);
}

inline double polynomial(double z, const double (&terms)[6]) {
  double sum = terms[5];
  for (int term = 4; term >= 0; --term) sum = terms[term] + times(z, sum);
  return sum;
}

// cos(2 pi u) for u in [0, 1), by fdlibm's polynomials on the nearest quarter turn.
inline double cos_turn(double u) {
  static constexpr double cosine_terms[] = {4.16666666666666019037e-02,  -1.38888888888741095749e-03, 2.48015872894767294178e-05,
                                            -2.75573143513906633035e-07, 2.08757232129817482790e-09,  -1.13596475577881948265e-11};
  static constexpr double sine_terms[] = {-1.66666666666666324348e-01, 8.33333333332248946124e-03,  -1.98412698298579493134e-04,
                                          2.75573137070700676789e-06,  -2.50507602534068634195e-08, 1.58969099521155010221e-10};
  const double quarter = std::floor(times(4, u) + 0.5);
  const double x = times(u - times(quarter, 0.25), 6.283185307179586), z = times(x, x);
  const int side = int(quarter) % 4;
  if (side % 2 == 0) {
    const double cosine = 1 - (times(0.5, z) - times(times(z, z), polynomial(z, cosine_terms)));
    return side ? -cosine : cosine;
  }
  const double sine = x + times(x, times(z, polynomial(z, sine_terms)));
  return side == 1 ? -sine : sine;
}

}  // namespace detail

// Draws random numbers; a draw depends on the seed, the stream and the position alone.
class Rng {
 public:
  explicit Rng(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  // How many 32-bit words were taken; set it to go on from there.
  uint64_t position() const { return taken_; }
  void set_position(uint64_t words) { taken_ = words; }

  uint32_t next_u32() {
    if (const uint64_t number = taken_ / 4; number != number_) {
      block_ = block(number);
      number_ = number;
    }
    return block_[taken_++ % 4];
  }
  // A float64 from [0, 1), of two words.
  double uniform() {
    const double high = next_u32() >> 5, low = next_u32() >> 6;
    return (high * 0x1p26 + low) * 0x1p-53;  // exact, fused or not
  }
  // A float from [0, 1), of one word.
  float uniform_f32() { return float(next_u32() >> 8) * 0x1p-24f; }
  // The standard normal distribution, of four words.
  double normal() {
    const double radius = 1 - uniform(), turn = uniform();
    return std::sqrt(-2 * detail::log(radius)) * detail::cos_turn(turn);
  }
  // The standard Gumbel distribution, of two words.
  double gumbel() {
    const double inside = uniform() + 0x1p-54;
    return -detail::log(-detail::log(inside < 1 ? inside : 1 - 0x1p-53));
  }
  // A whole number from low up to, but not including, high; 1 <= high - low <= 2^32, or the result is low.
  int64_t integers(int64_t low, int64_t high) {
    const uint64_t range = uint64_t(high) - uint64_t(low);
    if (high <= low || range > uint64_t(1) << 32) return low;
    const uint64_t rejected = ((uint64_t(1) << 32) - range) % range;
    for (;;) {
      const uint64_t product = next_u32() * range;
      if ((product & 0xffffffffu) >= rejected) return low + int64_t(product >> 32);
    }
  }
  // An order of 0 … n - 1.
  std::vector<uint32_t> permutation(uint32_t n) {
    std::vector<uint32_t> order(n);
    for (uint32_t index = 0; index < n; ++index) order[index] = index;
    for (uint32_t last = n; last-- > 1;) std::swap(order[last], order[size_t(integers(0, int64_t(last) + 1))]);
    return order;
  }

 private:
  std::array<uint32_t, 4> block(uint64_t number) const {
    uint32_t x0 = uint32_t(number), x1 = uint32_t(number >> 32), x2 = uint32_t(stream_), x3 = uint32_t(stream_ >> 32);
    uint32_t k0 = uint32_t(seed_), k1 = uint32_t(seed_ >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
      const uint64_t first = uint64_t(0xd2511f53u) * x0, second = uint64_t(0xcd9e8d57u) * x2;
      x0 = uint32_t(second >> 32) ^ x1 ^ k0;
      x1 = uint32_t(second);
      x2 = uint32_t(first >> 32) ^ x3 ^ k1;
      x3 = uint32_t(first);
    }
    return {x0, x1, x2, x3};
  }

  uint64_t seed_, stream_, taken_ = 0, number_ = ~uint64_t(0);
  std::array<uint32_t, 4> block_{};
};

}  // namespace firstdiff
