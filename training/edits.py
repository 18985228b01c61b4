"""What the prompts mean: each instruction is an image operation, and its result is what the models learn to paint.

The first five are the ladder of `scripts/sweep-klein.sh` (neutral, slight, photo, dramatic, weathering); the rest are
styles. All operations take and give float [B, 3, H, W] in 0..1 and are functions of the picture alone: an operation
with randomness of its own would only teach the models its average.
"""

import torch
import torch.nn.functional as F

LUMA = (0.299, 0.587, 0.114)  # BT.601
MOSS = (0.30, 0.40, 0.16)
SEPIA = ((0.393, 0.769, 0.189), (0.349, 0.686, 0.168), (0.272, 0.534, 0.131))

NEUTRAL = ""
SLIGHT = "slightly enhance the fine details"
PHOTO = "enhance details and lighting, make it photorealistic"
DRAMATIC = "dramatically enhance every texture and surface detail"
WEATHERING = "add more weathering, moss and water stains to the stone"
LADDER = (NEUTRAL, SLIGHT, PHOTO, DRAMATIC)

# Convention: under dual-ref the prompt names the roles by the number of the reference, starting at 1.
STATE_FIRST = "image 2 is the current frame; keep the appearance of image 1"
FRAME_FIRST = "image 1 is the current frame; keep the appearance of image 2"


def gaussian_kernel(sigma, device):
    radius = max(1, int(3 * sigma))
    offsets = torch.arange(-radius, radius + 1, device=device, dtype=torch.float32)
    kernel = torch.exp(-(offsets**2) / (2 * sigma**2))
    return kernel / kernel.sum()


def blur(picture, sigma, vertical_only=False):
    """Separable Gaussian, reflected at the border; sigma in pixels."""
    kernel = gaussian_kernel(sigma, picture.device)
    radius, channels = len(kernel) // 2, picture.shape[1]
    column = kernel.view(1, 1, -1, 1).expand(channels, 1, -1, 1)
    row = kernel.view(1, 1, 1, -1).expand(channels, 1, 1, -1)
    picture = F.conv2d(F.pad(picture, (0, 0, radius, radius), mode="reflect"), column, groups=channels)
    if vertical_only:
        return picture
    return F.conv2d(F.pad(picture, (radius, radius, 0, 0), mode="reflect"), row, groups=channels)


def luma(picture):
    """# [B, 1, H, W]"""
    weights = torch.tensor(LUMA, device=picture.device).view(1, 3, 1, 1)
    return (picture * weights).sum(1, keepdim=True)


def relative_detail(outputs, pictures):
    """Mean over pictures of detail energy against the input's."""
    return round((detail_energy(outputs) / detail_energy(pictures)).mean().item(), 3)


def detail_energy(picture):
    """Mean absolute luma difference to a blurred copy, one number per picture.  # [B]"""
    grey = luma(picture)
    return (grey - blur(grey, 1.5)).abs().mean((1, 2, 3))


def unsharp(picture, amount, sigma):
    return picture + amount * (picture - blur(picture, sigma))


def enhance_slightly(picture):
    return unsharp(picture, 0.7, 1.5)


def enhance_photo(picture):
    return unsharp(unsharp(picture, 1.1, 1.5), 0.3, 12)


def enhance_dramatically(picture):
    return unsharp(unsharp(picture, 2.0, 1.5), 0.5, 8)


def weather(picture):
    """Moss where the picture is dark, stains that run down from dark spots; the fine structure shows through."""
    grey = luma(picture)
    shade = torch.sigmoid(8 * (0.45 - blur(grey, 3)))
    stain = torch.sigmoid(10 * (blur(grey, 12, vertical_only=True) - grey))
    cover = (0.75 * shade + 0.35 * stain).clamp(0, 0.85)
    moss = torch.tensor(MOSS, device=picture.device).view(1, 3, 1, 1) * (0.55 + grey)
    return picture * (1 - cover) + cover * (moss + 0.4 * (picture - blur(picture, 2)))


def oil(picture, radius=6):
    """Kuwahara filter: each pixel takes the mean of the calmest of its four corner windows."""
    height, width = picture.shape[2:]
    padded = F.pad(picture, (radius,) * 4, mode="reflect")
    mean = F.avg_pool2d(padded, radius + 1, 1)
    variance = F.avg_pool2d(luma(padded) ** 2, radius + 1, 1) - F.avg_pool2d(luma(padded), radius + 1, 1) ** 2
    corners = [(0, 0), (0, radius), (radius, 0), (radius, radius)]
    means = torch.stack([mean[:, :, top : top + height, left : left + width] for top, left in corners])
    variances = torch.stack([variance[:, :, top : top + height, left : left + width] for top, left in corners])
    calmest = variances.argmin(0, keepdim=True).expand(1, -1, 3, -1, -1)
    return means.gather(0, calmest)[0]


def saturate(picture, amount):
    grey = luma(picture)
    return grey + amount * (picture - grey)


def tint(picture, factors):
    return picture * torch.tensor(factors, device=picture.device).view(1, 3, 1, 1)


def pixelate(picture, block=8):
    return F.interpolate(F.avg_pool2d(picture, block), scale_factor=block, mode="nearest")


def sketch(picture):
    grey = luma(picture)
    return (1 - 4 * (grey - blur(grey, 1.5)).abs()).expand(-1, 3, -1, -1)


def posterize(picture, levels=3, width=0.25):
    """Few steps of brightness with soft edges (`width` of a step is ramp), smooth and strong colours."""
    smooth = blur(picture, 1.5)
    grey = luma(smooth)
    below = (grey * levels).floor()
    ramp = ((grey * levels - below - 0.5) / width + 0.5).clamp(0, 1)
    return (below + ramp) / levels + 2.2 * (blur(smooth, 2) - luma(blur(smooth, 2)))


def sepia(picture):
    return torch.einsum("oc,bchw->bohw", torch.tensor(SEPIA, device=picture.device), picture)


STYLES = {
    "an oil painting": oil,
    "pixel art": pixelate,
    "a soft blurry photo": lambda picture: blur(picture, 3),
    "a black and white photo": lambda picture: luma(picture).expand(-1, 3, -1, -1),
    "vivid saturated colors": lambda picture: saturate(picture, 1.8),
    "warm sunset light": lambda picture: tint(picture, (1.15, 0.95, 0.7)),
    "cold blue moonlight": lambda picture: tint(picture, (0.6, 0.75, 1.05)),
    "darker": lambda picture: picture * 0.65,
    "brighter": lambda picture: 1 - (1 - picture) * 0.65,
    "a pencil sketch": sketch,
    "posterized poster art": posterize,
    "an old sepia photograph": sepia,
}

EDITS = {
    NEUTRAL: lambda picture: picture,
    SLIGHT: enhance_slightly,
    PHOTO: enhance_photo,
    DRAMATIC: enhance_dramatically,
    WEATHERING: weather,
    **STYLES,
}
PROMPTS = tuple(EDITS)


def edit(picture, prompt):
    """What the picture should become under this prompt.  # float [B, 3, H, W], 0..1"""
    return EDITS[prompt](picture).clamp(0, 1)


def name_roles(prompt, order):
    """The prompt as it is written for two references; `order` is STATE_FIRST or FRAME_FIRST."""
    return f"{order}, {prompt}"


def prompt_weights(neutral=0.3):
    """How often each prompt is trained; the empty one most, since every loop pass may use it."""
    others = (1 - neutral) / (len(PROMPTS) - 1)
    return torch.tensor([neutral] + [others] * (len(PROMPTS) - 1))


def draw_prompt(neutral=0.3):
    """Row of a prompt, drawn by these weights."""
    return int(torch.multinomial(prompt_weights(neutral), 1))
