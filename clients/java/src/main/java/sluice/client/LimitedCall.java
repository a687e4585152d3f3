package sluice.client;

import java.lang.reflect.Method;
import java.lang.reflect.Parameter;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A call of a method that is annotated with {@link Limited}, as a check. */
public final class LimitedCall {
  private static final Pattern ARGUMENT = Pattern.compile("\\{(\\w+)\\}");

  private LimitedCall() {}

  /**
   * The annotation of the method in {@code type} that implements {@code method}. If it has none,
   * that of {@code method}; null if this has none, too.
   */
  public static Limited limitOf(Class<?> type, Method method) {
    Limited limit = implementation(type, method).getAnnotation(Limited.class);
    return limit != null ? limit : method.getAnnotation(Limited.class);
  }

  /** The check for a call with these arguments. */
  public static Check checkOf(Limited limit, Class<?> type, Method method, Object[] arguments) {
    Check check = Check.of(limit.domain()).cost(limit.cost()).mode(limit.mode());
    Parameter[] parameters = implementation(type, method).getParameters();
    for (String attribute : limit.attributes()) {
      int equals = attribute.indexOf('=');
      check.attribute(
          attribute.substring(0, equals),
          valueOf(attribute.substring(equals + 1), parameters, arguments));
    }
    return check;
  }

  private static Method implementation(Class<?> type, Method method) {
    try {
      return type.getMethod(method.getName(), method.getParameterTypes());
    } catch (NoSuchMethodException error) {
      return method; // not public
    }
  }

  private static String valueOf(String pattern, Parameter[] parameters, Object[] arguments) {
    Matcher found = ARGUMENT.matcher(pattern);
    StringBuffer value = new StringBuffer();
    while (found.find()) {
      String argument = String.valueOf(arguments[indexOf(found.group(1), parameters)]);
      found.appendReplacement(value, Matcher.quoteReplacement(argument));
    }
    return found.appendTail(value).toString();
  }

  private static int indexOf(String name, Parameter[] parameters) {
    if (Character.isDigit(name.charAt(0))) {
      return Integer.parseInt(name);
    }
    for (int i = 0; i < parameters.length; ++i) {
      if (parameters[i].isNamePresent() && parameters[i].getName().equals(name)) {
        return i;
      }
    }
    throw new IllegalArgumentException(
        "@Limited: no parameter is named " + name + "; is the class compiled with -parameters?");
  }
}
